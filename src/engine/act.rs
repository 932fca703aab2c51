//! The acting script of a group of turns: each action in its own subshell, framed, the first failure ends it.

use crate::model::Untrusted;
use crate::resource::Action;
use crate::script::{Fragment, Token};

/// What one action of a group came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted {
    /// Exit status; `None` when it never began or its end was not seen.
    pub status: Option<i32>,
    /// What it printed.
    pub output: Untrusted,
}

/// Returns one script for actions. Its output is told apart by [`split`] with the same token. What an action writes
/// to stderr is part of its output, unless its stdout is wanted as a value: then it stays on stderr.
pub fn group<'a>(actions: impl IntoIterator<Item = (&'a Action, bool)>) -> Fragment {
    let mut script = Fragment::new();
    for (number, (action, value)) in actions.into_iter().enumerate() {
        script = script
            .code("printf '\\n%s begin %s\\n' \"$FORGE_T\"")
            .number(number as u64)
            .code("\n(\n")
            .then(action.body.clone())
            .code(if value { "\n)\n" } else { "\n) 2>&1\n" })
            .code("forge_rc=$?\nprintf '\\n%s end %s %s\\n' \"$FORGE_T\"")
            .number(number as u64)
            .code(" \"$forge_rc\"\n[ \"$forge_rc\" -eq 0 ] || exit 0\n");
    }
    script
}

/// Reads the output of [`group`] back into one result per action.
pub fn split(stdout: &[u8], token: &Token, actions: usize) -> Vec<Acted> {
    let mut acted = vec![Acted { status: None, output: Untrusted::default() }; actions];
    let text = String::from_utf8_lossy(stdout);
    let mut rest = &*text;
    for (number, slot) in acted.iter_mut().enumerate() {
        let begin = format!("\n{} begin {number}\n", token.as_str());
        let Some(start) = rest.find(&begin) else { break };
        rest = &rest[start + begin.len()..];
        let end = format!("\n{} end {number} ", token.as_str());
        let Some(stop) = rest.find(&end) else {
            slot.output = rest.trim().into();
            break;
        };
        slot.output = rest[..stop].trim_end().into();
        rest = &rest[stop + end.len()..];
        slot.status = rest.lines().next().and_then(|line| line.trim().parse().ok());
    }
    acted
}

/// Returns whether the first action of [`group`] began.
pub fn began(stdout: &[u8], token: &Token) -> bool {
    String::from_utf8_lossy(stdout).contains(&format!("\n{} begin 0\n", token.as_str()))
}

/// Returns the last lines of what an action printed: enough to see why it failed.
pub fn tail(output: &Untrusted) -> Untrusted {
    const LINES: usize = 20;
    let lines: Vec<&str> = output.raw().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n").into()
}

/// Returns the hint of the first known text that the output holds.
pub fn explain(action: &Action, output: &Untrusted) -> Option<Untrusted> {
    action.explain.iter().find(|(text, _)| output.raw().contains(text)).map(|(_, hint)| (*hint).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SecretStore;
    use crate::script::Script;
    use secrecy::ExposeSecret;
    use std::time::Duration;

    fn run(actions: &[Action]) -> Vec<Acted> {
        let token = Token::new("0123456789abcdef0123456789abcdef");
        let together = group(actions.iter().map(|action| (action, false)));
        let script = Script { body: together, token: token.clone(), limit: Duration::from_secs(10) };
        let text = script.text(&SecretStore::default()).unwrap();
        let output = std::process::Command::new("sh").arg("-c").arg(text.expose_secret()).output().unwrap();
        split(&output.stdout, &token, actions.len())
    }

    fn action(code: &'static str) -> Action {
        Action { body: Fragment::new().code(code), ..Action::default() }
    }

    #[test]
    fn the_first_failure_ends_the_group() {
        let acted = run(&[action("echo one"), action("echo two >&2; exit 3"), action("echo three")]);
        assert_eq!(acted[0], Acted { status: Some(0), output: "one".into() });
        assert_eq!(acted[1], Acted { status: Some(3), output: "two".into() });
        assert_eq!(acted[2], Acted { status: None, output: "".into() });
    }

    #[test]
    fn an_exit_inside_an_action_leaves_the_others_alone() {
        let acted = run(&[action("x=1; cd /; exit 0"), action("echo \"${x-unset} $(pwd)\"")]);
        assert_eq!(acted[0].status, Some(0));
        assert!(acted[1].output.raw().starts_with("unset "));
        assert_eq!(acted[1].status, Some(0));
    }

    #[test]
    fn a_value_is_stdout_alone() {
        let token = Token::new("0123456789abcdef0123456789abcdef");
        let action = action("echo a warning >&2; echo the value");
        let script = Script { body: group([(&action, true)]), token: token.clone(), limit: Duration::from_secs(10) };
        let text = script.text(&SecretStore::default()).unwrap();
        let output = std::process::Command::new("sh").arg("-c").arg(text.expose_secret()).output().unwrap();
        assert_eq!(split(&output.stdout, &token, 1)[0].output, "the value".into());
        assert_eq!(output.stderr, b"a warning\n");
    }

    #[test]
    fn an_output_that_was_cut_has_no_status() {
        let token = Token::new("t");
        let acted = split(b"\nt begin 0\nhalf of it", &token, 2);
        assert_eq!(acted[0], Acted { status: None, output: "half of it".into() });
        assert_eq!(acted[1].status, None);
    }
}
