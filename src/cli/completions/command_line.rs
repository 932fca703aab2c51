//! An incomplete command line: its words as forge would receive them, and the insertion of a candidate.

use clap_complete::Shell;

/// Characters at which bash splits words; it replaces only the text after the last of them.
const WORD_BREAKS: [char; 2] = [':', '='];

/// The words before the cursor, and the word at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Complete words after the program's name.
    pub before: Vec<String>,
    /// The typed part of the word at the cursor.
    pub current: String,
    shell: Shell,
    /// The quote that bash has open at the cursor.
    quote: Option<char>,
}

impl CommandLine {
    /// Builds from the words of a shell; the word at index `at` is being typed.
    pub fn new(shell: Shell, words: &[String], at: usize) -> Self {
        let mut words: Vec<String> = words.iter().take(at + 1).cloned().collect();
        words.resize(at + 1, String::new());
        let words = if shell == Shell::Bash { join_split_words(&words) } else { words };
        let (current, before) =
            words.split_last().map_or((String::new(), [].as_slice()), |(last, all)| (last.clone(), all));
        let quote = current.chars().next().filter(|c| shell == Shell::Bash && ['\'', '"'].contains(c));
        // zsh and fish pass words as the program would receive them.
        let plain = |word: &String| if shell == Shell::Bash { unquote_word(word) } else { word.clone() };
        Self { before: before.iter().skip(1).map(plain).collect(), current: plain(&current), shell, quote }
    }

    /// Returns the text that the shell inserts for a candidate of the whole word; `None` for a candidate that does not
    /// match or is unsafe in a prompt.
    pub fn format_candidate(&self, candidate: &str, about: Option<&str>) -> Option<String> {
        if !candidate.starts_with(&self.current) || candidate.contains(char::is_control) {
            return None;
        }
        match (self.shell, self.quote, about) {
            // Single quotes allow no escapes.
            (Shell::Bash, Some('\''), _) => Some(candidate.replace('\'', r"'\''")),
            // In double quotes a backslash before `!` is kept, and without one bash expands its history.
            (Shell::Bash, Some(_), _) if candidate.contains('!') => None,
            (Shell::Bash, Some(_), _) => Some(escape_word(candidate, |c| !r#"\$"`"#.contains(c))),
            (Shell::Bash, None, _) => {
                let kept = self.current.rfind(WORD_BREAKS).map_or(0, |at| at + 1);
                Some(escape_word(&candidate[kept..], |c| {
                    c.is_ascii_alphanumeric() || "_./:@%+=,-".contains(c) || !c.is_ascii()
                }))
            }
            (Shell::Fish, _, Some(about)) => Some(format!("{candidate}\t{about}")),
            _ => Some(candidate.to_owned()),
        }
    }
}

/// Joins the words that bash split at `:` and `=`, which are never separate words in a forge command line.
fn join_split_words(words: &[String]) -> Vec<String> {
    let is_break = |word: &str| !word.is_empty() && word.chars().all(|c| WORD_BREAKS.contains(&c));
    let mut all: Vec<String> = Vec::new();
    let mut open = false;
    for word in words {
        match all.last_mut() {
            Some(last) if open || is_break(word) => last.push_str(word),
            _ => all.push(word.clone()),
        }
        open = is_break(word);
    }
    all
}

/// Removes the quotes of a word without expanding its content.
fn unquote_word(word: &str) -> String {
    let mut plain = String::new();
    let mut quote = None;
    let mut chars = word.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => plain.extend(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, _) => plain.push(c),
        }
    }
    plain
}

/// Escapes characters that are special to the shell.
fn escape_word(text: &str, is_plain: fn(char) -> bool) -> String {
    text.chars().flat_map(|c| (!is_plain(c)).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(shell: Shell, words: &[&str], at: usize) -> CommandLine {
        CommandLine::new(shell, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), at)
    }

    #[test]
    fn words_split_by_bash_are_joined() {
        let line = parse_line(Shell::Bash, &["forge", "plan", "--on", "gpu", ":", "lo"], 5);
        assert_eq!(line.before, ["plan", "--on"]);
        assert_eq!(line.current, "gpu:lo");
        assert_eq!(line.format_candidate("gpu:login", None).as_deref(), Some("login"));
        assert_eq!(line.format_candidate("other", None), None);
        let flag = self::parse_line(Shell::Bash, &["forge", "plan", "--on", "="], 3);
        assert_eq!((flag.current.as_str(), flag.format_candidate("--on=gpu", None).as_deref()), ("--on=", Some("gpu")));
    }

    #[test]
    fn candidates_are_quoted_for_the_shell() {
        let bash = parse_line(Shell::Bash, &["forge", "plan", "--step", ""], 3);
        assert_eq!(bash.format_candidate("web/reload now", None).as_deref(), Some("web/reload\\ now"));
        assert_eq!(bash.format_candidate("a$(id)`id`", None).as_deref(), Some("a\\$\\(id\\)\\`id\\`"));
        assert_eq!(bash.format_candidate("a\nb", None), None);
        let typed = parse_line(Shell::Bash, &["forge", "plan", "--step", "web/re\\ lo"], 3);
        assert_eq!(typed.current, "web/re lo");
        let quoted = parse_line(Shell::Bash, &["forge", "plan", "--on", "'gpu:&ra"], 3);
        assert_eq!(quoted.format_candidate("gpu:&rack_a", None).as_deref(), Some("gpu:&rack_a"));
        let hostile = "web/$(id>x) `id` 'a' \"b\" \\";
        let within = |quote: &str| parse_line(Shell::Bash, &["forge", "plan", "--step", &format!("{quote}web/")], 3);
        assert_eq!(within("'").format_candidate(hostile, None).unwrap(), r#"web/$(id>x) `id` '\''a'\'' "b" \"#);
        assert_eq!(within("\"").format_candidate(hostile, None).unwrap(), r#"web/\$(id>x) \`id\` 'a' \"b\" \\"#);
        assert_eq!(within("\"").format_candidate("web/now!", None), None);
        let fish = parse_line(Shell::Fish, &["forge", "pl"], 1);
        assert_eq!(fish.format_candidate("plan", Some("Show it")).as_deref(), Some("plan\tShow it"));
    }

    #[test]
    fn cursor_after_the_last_word_starts_a_new_word() {
        let line = parse_line(Shell::Zsh, &["forge", "plan"], 2);
        assert_eq!((line.before.as_slice(), line.current.as_str()), (["plan".to_owned()].as_slice(), ""));
        assert_eq!(self::parse_line(Shell::Bash, &[], 0).before, Vec::<String>::new());
    }
}
