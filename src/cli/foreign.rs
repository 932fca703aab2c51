//! Flags of other tools, and what they are called here: an unknown flag that many know gets a hint that names ours.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// Flags of `ansible-playbook` and `terraform`, with what does the same.
const FLAGS: &[(&[&str], &str)] = &[
    (&["--limit", "-l"], "to select hosts, use `--on SELECTOR`"),
    (&["--check", "-C"], "for a dry run, use `forge plan`"),
    (&["--diff", "-D"], "`forge plan` shows the differences"),
    (&["--tags", "-t", "--target", "--start-at-task"], "to select steps, use `--step PATTERN`"),
    (&["--skip-tags"], "to leave steps out, use `--skip PATTERN`"),
    (&["--list-tasks", "--list-tags"], "to list steps, use `forge graph`"),
    (&["--syntax-check"], "to check the files alone, use `forge validate`"),
    (
        &["--become", "-b", "--become-user", "--become-method", "--sudo"],
        "say it in the inventory: `connect: { sudo: true }`",
    ),
    (
        &["--ask-become-pass", "-K", "--become-password-file", "--ask-pass", "-k"],
        "say it in the inventory: `connect: { sudo: { password: { env: NAME } } }`; ssh logs in with keys",
    ),
    (
        &["--extra-vars", "-e", "--var", "--var-file"],
        "say it in the inventory: `vars` of a host or group, or `with` in `apply`",
    ),
    (&["--forks", "--parallelism"], "to work on N hosts at once, use `--parallel N`"),
    (&["--user", "-u", "--remote-user"], "say it in the inventory: `connect: { user: NAME }`"),
    (&["--private-key", "--key-file"], "say it in the inventory: `connect: { identity: FILE }`"),
    (
        &["--ssh-common-args", "--ssh-extra-args"],
        "say it in the inventory: `connect: { config: FILE }`, or in `~/.ssh/config`",
    ),
    (
        &["--vault-password-file", "--ask-vault-pass", "--vault-id"],
        "secrets come from the environment or files: `{ env: NAME }`",
    ),
    (&["--connection", "-c"], "say it in the inventory: `connect: { transport: local }`"),
    (&["--auto-approve", "-auto-approve"], "to apply without a question, use `--yes`"),
    (&["--out", "-out"], "to keep the plan, use `-o FILE`"),
    (&["--dry-run"], "for a dry run, use `forge plan`"),
];

/// Returns an error of clap with a hint, where it is about a flag of another tool.
pub fn with_hint(error: Error, command: &Command) -> Error {
    let typed = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(typed))) => typed.clone(),
        _ => return error,
    };
    let name = typed.split('=').next().unwrap_or_default();
    let Some((_, hint)) = FLAGS.iter().find(|(names, _)| names.contains(&name)) else { return error };
    // Made anew: clap's own guess, which is by spelling, cannot be taken out of an error.
    let mut hinted = Error::new(ErrorKind::UnknownArgument).with_cmd(command);
    for kind in [ContextKind::InvalidArg, ContextKind::Usage] {
        if let Some(value) = error.get(kind) {
            hinted.insert(kind, value.clone());
        }
    }
    hinted.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*hint).to_owned().into()]));
    hinted
}
