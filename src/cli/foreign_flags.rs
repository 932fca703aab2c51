//! Flags of other tools: an unknown flag that is known from another tool gets a hint with forge's equivalent.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::ffi::OsString;

/// Flags of `ansible-playbook` and `terraform`, each with forge's equivalent.
const FOREIGN_FLAGS: &[(&[&str], &str)] = &[
    (&["--limit", "-l"], "to select hosts, use `--on SELECTOR`"),
    (&["--check", "-C"], "for a dry run, use `forge plan`"),
    (&["--diff", "-D"], "to show differences, use `forge plan`"),
    (&["--tags", "-t", "--target", "-target", "--start-at-task"], "to select steps, use `--step PATTERN`"),
    (&["--skip-tags"], "to skip steps, use `--skip PATTERN`"),
    (&["--list-tasks", "--list-tags"], "to list steps, use `forge graph`"),
    (&["--syntax-check"], "to check only the files, use `forge validate`"),
    (
        &["--become", "-b", "--become-user", "--become-method", "--sudo"],
        "set it in the inventory: `connect: { sudo: true }`",
    ),
    (
        &["--ask-become-pass", "-K", "--become-password-file", "--ask-pass", "-k"],
        "set it in the inventory: `connect: { sudo: { password: { env: NAME } } }`; ssh logs in with keys",
    ),
    (
        &["--extra-vars", "-e", "--var", "-var", "--var-file", "-var-file"],
        "set it in the inventory: `vars` of a host or group, or `with` in `apply`",
    ),
    (&["--forks", "--parallelism"], "to work on N hosts at once, use `--parallel N`"),
    (&["--user", "-u", "--remote-user"], "set it in the inventory: `connect: { user: NAME }`"),
    (&["--private-key", "--key-file"], "set it in the inventory: `connect: { identity: FILE }`"),
    (
        &["--ssh-common-args", "--ssh-extra-args"],
        "set it in the inventory: `connect: { config: FILE }`, or in `~/.ssh/config`",
    ),
    (
        &["--vault-password-file", "--ask-vault-pass", "--vault-id"],
        "secrets come from the environment or files: `{ env: NAME }`",
    ),
    (&["--connection", "-c"], "set it in the inventory: `connect: { transport: local }`"),
    (&["--auto-approve", "-auto-approve"], "to skip the confirmation, use `--yes`"),
    (&["--out", "-out"], "to save the plan, use `-o FILE`"),
    (&["--dry-run"], "for a dry run, use `forge plan`"),
];

/// Adds a hint to a clap error about a flag of another tool.
pub fn add_foreign_flag_hint(error: Error, command: &Command) -> Error {
    let typed = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(typed))) => typed.clone(),
        _ => return error,
    };
    let Some(hint) = find_flag_hint(&typed) else { return error };
    // Builds a new error: clap's own suggestion, which is by spelling, cannot be removed from an error.
    let mut hinted = unknown_flag_error(command, typed, hint);
    if let Some(usage) = error.get(ContextKind::Usage) {
        hinted.insert(ContextKind::Usage, usage.clone());
    }
    hinted
}

/// Rejects long flags with a single dash: clap would read `-out=FILE` as `-o ut=FILE` and write a file of that name.
pub fn reject_terraform_flags(argv: &[OsString], command: &Command) -> Result<(), Error> {
    let own = argv.iter().filter_map(|typed| typed.to_str()).take_while(|typed| *typed != "--");
    let is_long = |typed: &&str| !typed.starts_with("--") && typed.len() > 2;
    let mut foreign = own.filter(is_long).filter_map(|typed| Some((typed, find_flag_hint(typed)?)));
    foreign.next().map_or(Ok(()), |(typed, hint)| Err(unknown_flag_error(command, flag_name(typed).to_owned(), hint)))
}

fn find_flag_hint(typed: &str) -> Option<&'static str> {
    FOREIGN_FLAGS.iter().find(|(names, _)| names.contains(&flag_name(typed))).map(|(_, hint)| *hint)
}

fn flag_name(typed: &str) -> &str {
    typed.split('=').next().unwrap_or_default()
}

fn unknown_flag_error(command: &Command, typed: String, hint: &str) -> Error {
    let mut error = Error::new(ErrorKind::UnknownArgument).with_cmd(command);
    error.insert(ContextKind::InvalidArg, ContextValue::String(typed));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.to_owned().into()]));
    error
}
