//! Splits a shell script into its simple commands, as far as that is possible without running it.

/// A redirection of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellRedirect {
    /// `<`
    Input,
    /// `>`, `>>`, `>|`, `&>`
    Output,
    /// `<>`
    Other,
}

/// One command of a script: its words without quotes, and its redirections with their targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    pub words: Vec<String>,
    pub redirects: Vec<(ShellRedirect, String)>,
}

/// Parses the commands of a script in their order. Variables and substitutions stay as they are; keywords are words.
/// The rest after a here-document is dropped: its text is not a command.
pub fn parse_shell_script(script: &str) -> Vec<SimpleCommand> {
    let mut parser = ShellScriptParser::default();
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => parser.push_quoted(chars.next()),
            '\'' => parser.push_quoted(chars.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                parser.push_quoted(None);
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    let escaped = c == '\\' && chars.peek().is_some_and(|next| "\\\"$`".contains(*next));
                    parser.push_quoted(if escaped { chars.next() } else { Some(c) });
                }
            }
            '\n' if parser.in_here_document => break,
            '&' if chars.peek() == Some(&'>') => parser.end_word(),
            '>' | '<' => {
                let mut operator = c.to_string();
                while let Some(next) = chars.next_if(|next| "<>|".contains(*next)) {
                    operator.push(next);
                }
                parser.start_redirect(&operator);
                if let Some(next) = chars.next_if_eq(&'&') {
                    parser.push_quoted([next]);
                }
            }
            ';' | '&' | '|' | '(' | ')' | '\n' => parser.end_command(),
            c if c.is_whitespace() => parser.end_word(),
            c => parser.word.get_or_insert_default().push(c),
        }
    }
    parser.end_command();
    parser.commands
}

#[derive(Default)]
struct ShellScriptParser {
    commands: Vec<SimpleCommand>,
    command: SimpleCommand,
    word: Option<String>,
    /// Whether the word has quotes or escapes: it is not the number of a descriptor.
    quoted: bool,
    redirect: Option<ShellRedirect>,
    in_here_document: bool,
}

impl ShellScriptParser {
    fn push_quoted(&mut self, chars: impl IntoIterator<Item = char>) {
        self.quoted = true;
        self.word.get_or_insert_default().extend(chars);
    }

    fn end_word(&mut self) {
        self.quoted = false;
        let Some(word) = self.word.take() else { return };
        match self.redirect.take() {
            Some(kind) => self.command.redirects.push((kind, word)),
            None => self.command.words.push(word),
        }
    }

    fn start_redirect(&mut self, operator: &str) {
        let is_number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
        if !self.quoted && self.word.as_ref().is_some_and(is_number) {
            self.word = None;
        }
        self.end_word();
        self.in_here_document |= operator == "<<";
        self.redirect = Some(match operator {
            "<" | "<<" | "<<<" => ShellRedirect::Input,
            ">" | ">>" | ">|" => ShellRedirect::Output,
            _ => ShellRedirect::Other,
        });
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirect = None;
        let command = std::mem::take(&mut self.command);
        if command != SimpleCommand::default() {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(script: &str) -> String {
        let one = |command: &SimpleCommand| {
            let redirects = command.redirects.iter().map(|(kind, target)| format!(" {kind:?}:{target}"));
            command.words.join("|") + &redirects.collect::<String>()
        };
        parse_shell_script(script).iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn scripts_are_split_into_commands_and_redirects() {
        assert_eq!(
            told("echo \"a > b\" >/etc/a; cat <b|tee -a c 2>&1"),
            "echo|a > b Output:/etc/a; cat Input:b; tee|-a|c Output:&1"
        );
        assert_eq!(told("a && (b 'it;s' &>>/x) || c\\ d"), "a; b|it;s Output:/x; c d");
        assert_eq!(told("cat >/etc/a <<EOF\nrm /etc/b\nEOF\n"), "cat Output:/etc/a Input:EOF");
        assert_eq!(told("echo x2>y '1'>z 3<>/dev/tcp"), "echo|x2|1 Output:y Output:z Other:/dev/tcp");
        assert_eq!((told(""), told("'open"), told("x >")), (String::new(), "open".into(), "x".into()));
    }
}
