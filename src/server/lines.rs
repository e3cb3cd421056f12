//! Lines out of a stream of bytes that may stop anywhere, also inside a character.

/// Bytes of a line that are kept; nobody reads more of it live.
const LONGEST: usize = 2000;

/// One stream's unfinished line.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    cut: bool,
    /// The last byte was a carriage return: a line feed now would belong to it.
    returned: bool,
}

impl Lines {
    /// Takes bytes, and hands out the lines that they complete. A carriage return ends a line as
    /// well: a progress bar is a line for each of its states.
    pub fn feed(&mut self, bytes: &[u8], mut complete: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            match piece.split_last() {
                Some((b'\n', [])) if self.returned => {}
                Some((b'\n', text)) => {
                    self.take(text);
                    complete(self.end());
                }
                Some((b'\r', text)) => {
                    self.take(text);
                    if !self.line.is_empty() {
                        complete(self.end());
                    }
                }
                _ => self.take(piece),
            }
            self.returned = piece.ends_with(b"\r");
        }
    }

    /// The line that was never finished.
    pub fn rest(&mut self) -> Option<String> {
        (!self.line.is_empty()).then(|| self.end())
    }

    fn take(&mut self, text: &[u8]) {
        let fits = text.len().min(LONGEST - self.line.len());
        self.cut |= fits < text.len();
        self.line.extend_from_slice(&text[..fits]);
    }

    fn end(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        if !std::mem::take(&mut self.cut) {
            return String::from_utf8_lossy(&line).into_owned();
        }
        // The cut may have gone through a character.
        let whole = line
            .utf8_chunks()
            .map(|chunk| chunk.valid())
            .collect::<Vec<_>>()
            .concat();
        format!("{whole} …")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(pieces: &[&[u8]]) -> (Vec<String>, Option<String>) {
        let mut lines = Lines::default();
        let mut complete = Vec::new();
        for piece in pieces {
            lines.feed(piece, |line| complete.push(line));
        }
        (complete, lines.rest())
    }

    #[test]
    fn a_line_is_complete_at_its_end() {
        assert_eq!(fed(&[b"a", b"b\nc"]), (vec!["ab".into()], Some("c".into())));
        assert_eq!(
            fed(&[b"\n\nx\n"]),
            (vec![String::new(), String::new(), "x".into()], None)
        );
    }

    #[test]
    fn a_character_may_arrive_in_pieces() {
        let bytes = "é\n".as_bytes();
        assert_eq!(fed(&[&bytes[..1], &bytes[1..]]), (vec!["é".into()], None));
        assert_eq!(fed(&[&bytes[..1], b"\n"]), (vec!["\u{fffd}".into()], None));
    }

    #[test]
    fn a_carriage_return_ends_a_line_and_takes_the_line_feed_with_it() {
        assert_eq!(
            fed(&[b"\r10%", b"\r20%\r", b"\nend\r\n"]),
            (vec!["10%".into(), "20%".into(), "end".into()], None)
        );
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let text = "é".repeat(LONGEST);
        let (lines, rest) = fed(&[b"x", text.as_bytes(), b"\n"]);
        assert_eq!(rest, None);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("é …"), "{}", lines[0]);
        assert!(lines[0].len() < LONGEST + 10);
    }
}
