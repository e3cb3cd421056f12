//! Finds the end of a JSON object that comes in pieces.

/// How far an object has been read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JsonEnd {
    depth: usize,
    has_begun: bool,
    is_in_text: bool,
    is_escaped: bool,
}

impl JsonEnd {
    /// Reads the next piece.
    pub(super) fn read(&mut self, piece: &str) {
        for byte in piece.bytes() {
            if self.is_in_text {
                self.read_text(byte);
                continue;
            }
            match byte {
                b'"' => self.is_in_text = true,
                b'{' | b'[' => {
                    self.has_begun = true;
                    self.depth += 1;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn read_text(&mut self, byte: u8) {
        if self.is_escaped {
            self.is_escaped = false;
            return;
        }
        match byte {
            b'\\' => self.is_escaped = true,
            b'"' => self.is_in_text = false,
            _ => {}
        }
    }

    /// Whether the object is whole.
    pub(super) fn is_reached(self) -> bool {
        self.has_begun && self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::JsonEnd;

    #[test]
    fn the_end_is_found_in_any_pieces() {
        let text = r#"{"a": "}\"{", "b": [{}, "\\"]}"#;
        let mut end = JsonEnd::default();
        assert!(!end.is_reached());
        for (place, character) in text.char_indices() {
            end.read(&character.to_string());
            assert_eq!(end.is_reached(), place + 1 == text.len(), "{place}");
        }
    }
}
