//! Python in colours.

use std::sync::LazyLock;

use console::Style;
use syntect::{
    easy::HighlightLines,
    highlighting::{Color, Theme, ThemeSet},
    parsing::SyntaxSet,
};

const THEME: &str = "base16-ocean.dark";

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_nonewlines);
static COLOURS: LazyLock<Option<Theme>> =
    LazyLock::new(|| ThemeSet::load_defaults().themes.remove(THEME));

/// One program, line by line.
pub(super) fn python(code: &str) -> Vec<String> {
    let syntax = SYNTAXES.find_syntax_by_extension("py");
    let (Some(syntax), Some(theme)) = (syntax, COLOURS.as_ref()) else {
        return code.lines().map(str::to_owned).collect();
    };
    let mut lines = HighlightLines::new(syntax, theme);
    let mut coloured = |line: &str| {
        let Ok(parts) = lines.highlight_line(line, &SYNTAXES) else {
            return line.to_owned();
        };
        let parts = parts.into_iter();
        parts
            .map(|(style, part)| {
                Style::new()
                    .color256(nearest(style.foreground))
                    .apply_to(part)
                    .to_string()
            })
            .collect()
    };
    code.lines().map(&mut coloured).collect()
}

/// Of the 216 colours that terminals have in a cube.
fn nearest(colour: Color) -> u8 {
    let step = |part: u8| u16::from(part) * 5 / 255;
    let place = 16 + 36 * step(colour.r) + 6 * step(colour.g) + step(colour.b);
    u8::try_from(place).unwrap_or(15)
}
