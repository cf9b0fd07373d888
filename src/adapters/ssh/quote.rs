//! The one function through which a word gets into a shell's command line.

/// Quotes a word for a POSIX shell, so that the shell passes on exactly these bytes. A word must not hold NUL,
/// which no argument can carry; [`is_passable`] tells.
#[must_use]
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether a word can be an argument at all.
#[must_use]
pub fn is_passable(word: &str) -> bool {
    !word.contains('\0')
}

/// Quotes words and joins them to a command line.
#[must_use]
pub fn join<S: AsRef<str>>(words: &[S]) -> String {
    words
        .iter()
        .map(|word| quote(word.as_ref()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn through_a_shell(words: &[String]) -> Vec<u8> {
        let line = format!("printf '%s\\n.\\n' {}", join(words));
        let output = Command::new("/bin/sh").arg("-c").arg(line).output().unwrap();
        assert!(output.status.success());
        output.stdout
    }

    fn expected(words: &[String]) -> Vec<u8> {
        words
            .iter()
            .flat_map(|word| format!("{word}\n.\n").into_bytes())
            .collect()
    }

    #[test]
    fn plain_words_stay_readable() {
        assert_eq!(quote("/opt/bin/kubectl"), "/opt/bin/kubectl");
        assert_eq!(quote("--timeout=60s"), "--timeout=60s");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("~"), "'~'");
        assert_eq!(quote("a b"), "'a b'");
    }

    #[test]
    fn what_shells_treat_specially_comes_through() {
        let words: Vec<String> = [
            "$(reboot)",
            "`id`",
            "$HOME",
            "*",
            "?",
            "[a]",
            "{a,b}",
            "a;b",
            "a&b",
            "a|b",
            "<x",
            ">x",
            "#c",
            "!1",
            "\\",
            "\\n",
            "\"",
            "'",
            "''",
            "\n",
            "\t",
            " ",
            "",
            "-n",
            "é",
            "\u{1f600}",
            "a\rb",
            "~root",
            "x=~",
        ]
        .map(String::from)
        .to_vec();
        assert_eq!(through_a_shell(&words), expected(&words));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_words_come_through(words in proptest::collection::vec("[^\0]{0,12}", 1..4)) {
            prop_assert_eq!(through_a_shell(&words), expected(&words));
        }

        #[test]
        fn words_of_special_characters_come_through(words in proptest::collection::vec("[ '\"$`\\\\*?!~#&|;<>(){}\\[\\]\n\t=-]{0,10}", 1..4)) {
            prop_assert_eq!(through_a_shell(&words), expected(&words));
        }
    }
}
