//! Lists of values on a command line: `cubic,./mycc.c`.

/// The values between the commas that stand outside of quotes and brackets, without the spaces around them. What
/// follows a letter or digit is an apostrophe, and opens no quote.
pub fn split_values(text: &str) -> Vec<&str> {
    let (mut values, mut start, mut depth, mut quote, mut escaped) = (Vec::new(), 0, 0_usize, None, false);
    let mut is_word = false;
    for (at, letter) in text.char_indices() {
        let is_in_word = std::mem::replace(&mut is_word, letter.is_alphanumeric());
        match (quote, letter) {
            (Some('"'), '\\') => escaped = !escaped,
            (Some(open), _) => {
                if letter == open && !escaped {
                    quote = None;
                }
                escaped = false;
            }
            (None, '"' | '\'') if !is_in_word => quote = Some(letter),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                values.push(text[start..at].trim());
                start = at + 1;
            }
            (None, _) => {}
        }
    }
    values.push(text[start..].trim());
    values
}

#[cfg(test)]
mod tests {
    use super::split_values;
    use proptest::prelude::*;

    #[test]
    fn commas_in_tables_lists_and_quotes_part_no_values() {
        let split = |text| split_values(text);
        assert_eq!(split("cubic, ./mycc.c"), ["cubic", "./mycc.c"]);
        assert_eq!(split("0 %,0.1 %,1 %"), ["0 %", "0.1 %", "1 %"]);
        assert_eq!(split(r#"{ name = "cubic", beta = "50 %" },bbr"#), [r#"{ name = "cubic", beta = "50 %" }"#, "bbr"]);
        assert_eq!(split(r#"["1 B", "2 B", "3 B"],["1 B", "2 B", "9 B"]"#).len(), 2);
        assert_eq!(split(r#""a,\",b",'c,"',d"#), [r#""a,\",b""#, r#"'c,"'"#, "d"]);
        assert_eq!(split(r#""a\\",b"#), [r#""a\\""#, "b"]);
        assert_eq!(split("the user's side,b"), ["the user's side", "b"]);
        assert_eq!(split(",a"), ["", "a"]);
    }

    proptest! {
        #[test]
        fn nothing_but_commas_and_spaces_is_lost(text in "[a-c ,]{0,30}") {
            let plain = |text: &str| text.replace([' ', ','], "");
            prop_assert_eq!(plain(&split_values(&text).concat()), plain(&text));
            prop_assert_eq!(split_values(&text).len(), text.matches(',').count() + 1);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            prop_assert!(!split_values(&text).is_empty());
        }
    }
}
