//! Text of models, tools and configurations as it may be shown.

/// Of a name, this much is shown (characters).
pub(super) const LONGEST_NAME: usize = 500;

/// Text of models and tools without what would move the cursor or more.
pub(super) fn plain(text: &str) -> String {
    let is_fine = |character: &char| matches!(character, '\n' | '\t') || !is_hidden(*character);
    text.chars().filter(is_fine).collect()
}

/// The same on one line, for names: one must not pass for more than it is.
pub(super) fn one_line(text: &str, longest: usize) -> String {
    let shown = text.chars().filter(|character| !is_hidden(*character));
    shown.take(longest).collect()
}

/// What is not seen, or turns round what is.
fn is_hidden(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_nothing = matches!(
        character,
        '\u{200b}' | '\u{2060}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    );
    character.is_control() || turns || is_nothing
}

#[cfg(test)]
mod tests {
    use super::{one_line, plain};

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        assert_eq!(plain("a\u{1b}[31mb\u{7}\r\n\tü\u{9b}2J"), "a[31mb\n\tü2J");
        assert_eq!(one_line("a\n\u{202e}b\u{200b}c", 9), "abc");
    }
}
