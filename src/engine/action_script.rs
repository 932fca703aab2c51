//! The script of a group of turns: each action runs in its own framed subshell; the first failure ends the script.

use super::event::StepFailure;
use super::grouped_action::GroupedAction;
use super::new_paths::NewPaths;
use crate::model::UntrustedText;
use crate::resource::Action;
use crate::script::{ScriptToken, ShellFragment};
use crate::state::UndoScripts;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

/// The result of one action of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutedAction {
    /// Exit status; `None` if the action never began or its end was not seen.
    pub status: Option<i32>,
    /// Whether the action began, or may have begun where the output was truncated.
    pub began: bool,
    /// The action's output.
    pub output: UntrustedText,
    /// Why the action could not begin: a prerequisite is not available.
    pub lacks: Option<StepFailure>,
    /// The limit after which the host ended the action.
    pub stopped_after: Option<Duration>,
    /// Whether the beginning of the output is missing, as only the last part of a long output is kept.
    pub cut: bool,
}

/// Returns `exit status 100`, or the usual meaning of the status.
pub fn format_exit_status(status: i32) -> String {
    match status {
        124 => "exit status 124: `timeout` ends with it after it stopped a command".to_owned(),
        126 => "exit status 126: a command could not be executed".to_owned(),
        127 => "exit status 127: a command was not found".to_owned(),
        _ if status > 128 && status < 160 => format!("exit status {status}: as if killed by signal {}", status - 128),
        _ => format!("exit status {status}"),
    }
}

/// Returns one script for all actions. [`split_group_output`] separates its output by the same token. `undo` runs in the
/// first action, which fails with it, and after the last one.
pub fn build_group_script(actions: &[GroupedAction<'_>], undo: &UndoScripts) -> ShellFragment {
    let mut script = ShellFragment::new().code("forge_after() { :\n").append_fragment(undo.after.clone()).code("}\n");
    if actions.iter().any(|action| action.batch.is_some()) {
        script = script.code("forge_batch() { FORGE_ALSO=$1 FORGE_JOINED=$2; }\n");
    }
    for (number, action) in actions.iter().enumerate() {
        script = append_batch(script, actions, number)
            .code("printf '\\n%s begin %s\\n' \"$FORGE_T\"")
            .number(number as u64)
            .code("\n")
            .append_fragment(append_action(actions, number, undo))
            .append_fragment(set_contexts(action.paths))
            .append_fragment(remove_drafts(actions, number))
            .append_fragment(sync_directories(actions, number))
            .code("printf '\\n%s end %s %s\\n' \"$FORGE_T\"")
            .number(number as u64)
            .code(" \"$forge_rc\"\n[ \"$forge_rc\" -eq 0 ] || { forge_after; exit 0; }\n");
    }
    script.code("forge_after\n")
}

/// Returns the subshell of an action. If it makes a new path that others are made with, it runs only if that fails.
fn append_action(actions: &[GroupedAction<'_>], number: usize, undo: &UndoScripts) -> ShellFragment {
    let action = &actions[number];
    let before = if number == 0 { undo.before.clone() } else { ShellFragment::new() };
    let subshell = |inner: ShellFragment| ShellFragment::new().code("(\n").append_fragment(inner).code("\n)");
    let creation = NewPaths::find(actions, number).and_then(|new| new.render_creation(number));
    let Some(creation) = creation else {
        let noted = action.noted_step.map(note_step).unwrap_or_default();
        return subshell(noted.append_fragment(before).append_fragment(action.script.body.clone()))
            .code(if action.exports_stdout { "\n" } else { " 2>&1\n" });
    };
    let start = match before.is_empty() {
        true => ShellFragment::new().code("{ "),
        false => subshell(before).code(" 2>&1 && { "),
    };
    start
        .append_fragment(creation)
        .code(" ||\n")
        .append_fragment(subshell(action.script.body.clone()))
        .code(" 2>&1; }\n")
}

/// Removes the files of a failed run of actions that have no name yet.
fn remove_drafts(actions: &[GroupedAction<'_>], number: usize) -> ShellFragment {
    ShellFragment::new().code(match NewPaths::find(actions, number) {
        Some(_) => "[ \"$forge_rc\" -eq 0 ] || forge_undraft\n",
        None => "",
    })
}

/// Notes in the journal of a view that the actions of a step begin, and names the step to the programs that they start.
pub fn note_step(step: &str) -> ShellFragment {
    ShellFragment::new()
        .code("forge_step() { export FORGE_STEP=\"$1\"; printf 'step\\t%s\\t%s\\n' \"$(date +%s.%N)\" \"$1\"; }\n")
        .code("forge_step")
        .word(step)
        .code(" >>/usr/local/lib/forge-sandbox/journal\n")
}

/// Sets `forge_rc` to the status of the last command. If it succeeded, and the host has SELinux, gives `paths` the
/// contexts of its policy: a file that is moved to its place keeps the context of the folder in which it was made. The
/// shell itself tests that, so other hosts start no program for it. A file system without contexts does not fail the step.
pub fn set_contexts(paths: &[String]) -> ShellFragment {
    let code = ShellFragment::new().code("forge_rc=$?\n");
    if paths.is_empty() {
        return code;
    }
    let code = code.code(r#"[ "$forge_rc" -ne 0 ] || [ ! -e /sys/fs/selinux/enforce ] || restorecon -i --"#);
    paths.iter().fold(code, |code, path| code.word(path)).code(" 2>&1 || :\n")
}

/// Defines how the directories of a run of actions are synced, before its first action.
fn open_synced_run(actions: &[GroupedAction<'_>], number: usize) -> ShellFragment {
    let run = find_synced_run(actions, number).filter(|run| run.start == number);
    let Some(run) = run else { return ShellFragment::new() };
    let directories: BTreeSet<&str> = actions[run].iter().filter_map(GroupedAction::directory).collect();
    let code = ShellFragment::new().code("FORGE_LATER=yes\nforge_sync() { sync --");
    directories.into_iter().fold(code, |code, directory| code.word(directory)).code(" 2>&1; }\n")
}

/// Syncs the directories of a run of actions once, after the last of them or the first that failed, before its end is
/// reported: a step counts as done only then.
fn sync_directories(actions: &[GroupedAction<'_>], number: usize) -> ShellFragment {
    let Some(run) = find_synced_run(actions, number) else { return ShellFragment::new() };
    ShellFragment::new().code(match number + 1 == run.end {
        true => "FORGE_LATER=\nforge_sync || [ \"$forge_rc\" -ne 0 ] || forge_rc=1\n",
        // The directory of an action that did not run may not exist.
        false => "[ \"$forge_rc\" -eq 0 ] || forge_sync || :\n",
    })
}

/// Returns the range of consecutive actions around `number` that leave directories to be synced; `None` if it is the
/// only one.
fn find_synced_run(actions: &[GroupedAction<'_>], number: usize) -> Option<Range<usize>> {
    let joins = |at: &usize| actions[*at].directory().is_some();
    let start = (0..=number).rev().take_while(joins).last()?;
    let end = (number..actions.len()).take_while(joins).last()? + 1;
    (end - start > 1).then_some(start..end)
}

/// Announces to the action with that number what it may do for those after it, or that one before it may have done its
/// part.
fn append_batch(script: ShellFragment, actions: &[GroupedAction<'_>], number: usize) -> ShellFragment {
    let Some(key) = actions[number].key() else { return script };
    let joined = number > 0 && actions[number - 1].key() == Some(key);
    let others = actions[number + 1..].iter().take_while(|other| !joined && other.key() == Some(key));
    let words: Vec<&str> = others.flat_map(|other| other.batch).flat_map(|b| &b.words).map(String::as_str).collect();
    let new = NewPaths::find(actions, number).filter(|new| new.begins_at(number));
    script
        .append_fragment(open_synced_run(actions, number))
        .append_fragment(new.map(|new| new.render_start()).unwrap_or_default())
        .code("forge_batch")
        .word(words.join(" "))
        .word(if joined { "yes" } else { "" })
        .code("\n")
}

/// Parses the output of [`build_group_script`] into one result per action. `dropped` is the number of bytes missing at the
/// beginning. Each remaining frame still shows the progress of the group, as an action begins only after all earlier
/// ones succeeded.
pub fn split_group_output(stdout: &[u8], dropped: u64, token: &ScriptToken, actions: usize) -> Vec<ExecutedAction> {
    let mut acted = vec![ExecutedAction::default(); actions];
    let text = String::from_utf8_lossy(stdout);
    let (mut from, mut at, mut framed) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some((end, number)) = parse_frame(line, token).filter(|(_, number)| *number < actions) else { continue };
        acted[..number]
            .iter_mut()
            .filter(|earlier| earlier.status.is_none())
            .for_each(ExecutedAction::mark_ended_unseen);
        let slot = &mut acted[number];
        if let Some(status) = end {
            slot.cut = !slot.began;
            slot.status = Some(status);
            slot.output = drop_partial_line(&text[from..start], slot.cut).trim_end().into();
        }
        slot.began = true;
        (from, framed) = (at, true);
    }
    assign_trailing_output(&mut acted, &text[from..], framed, dropped);
    acted
}

impl ExecutedAction {
    /// Marks an action as successful whose frame is lost: a later one began.
    fn mark_ended_unseen(&mut self) {
        *self = Self { status: Some(0), began: true, cut: true, ..Self::default() };
    }
}

/// Assigns the text after the last frame to the action that has not ended. Without any frame its action is unknown:
/// each of them may have begun.
fn assign_trailing_output(acted: &mut [ExecutedAction], text: &str, framed: bool, dropped: u64) {
    let cut = !framed && dropped > 0;
    for slot in acted.iter_mut().filter(|slot| slot.status.is_none() && (cut || slot.began)) {
        *slot = ExecutedAction {
            began: true,
            output: drop_partial_line(text, cut).trim().into(),
            cut,
            ..ExecutedAction::default()
        };
    }
}

/// Drops a truncated first line: it may contain a part of a secret that redaction would not recognize.
fn drop_partial_line(text: &str, cut: bool) -> &str {
    match (cut, text.split_once('\n')) {
        (false, _) => text,
        (true, Some((_, rest))) => rest,
        (true, None) => "",
    }
}

/// Parses `TOKEN begin NUMBER` or `TOKEN end NUMBER STATUS` into the status, for an end, and the number.
fn parse_frame(line: &str, token: &ScriptToken) -> Option<(Option<i32>, usize)> {
    let mut words = line.strip_suffix('\n')?.strip_prefix(token.as_str())?.strip_prefix(' ')?.split(' ');
    let (word, number) = (words.next()?, words.next()?.parse().ok()?);
    match word {
        "begin" => Some((None, number)),
        "end" => Some((Some(words.next()?.parse().ok()?), number)),
        _ => None,
    }
}

/// Returns whether the first action of [`build_group_script`] began: the output contains a frame, or `dropped` bytes of it are
/// missing.
pub fn has_group_begun(stdout: &[u8], dropped: u64, token: &ScriptToken) -> bool {
    dropped > 0 || String::from_utf8_lossy(stdout).split_inclusive('\n').any(|line| parse_frame(line, token).is_some())
}

/// Returns the last lines of an action's output: enough to see why it failed.
pub fn tail_output(output: &UntrustedText) -> UntrustedText {
    output.last_lines()
}

/// Returns an action's output, with a notice if its beginning is missing.
pub fn format_printed_output(acted: &ExecutedAction) -> UntrustedText {
    match acted.cut {
        true => format!("(output truncated: the beginning is missing)\n{}", acted.output.raw()).into(),
        false => acted.output.clone(),
    }
}

/// Hints for texts of any action: the state before a change is kept in files of all kinds.
const EXPLAIN_ALL: &[(&str, &str)] =
    &[("No space left on device", "the file system is full: free space there, or under /var/lib/forge, and run again")];

/// Returns the hint for the first known text in the output.
pub fn find_known_hint(action: &Action, output: &UntrustedText) -> Option<UntrustedText> {
    action
        .script()?
        .explain
        .iter()
        .chain(EXPLAIN_ALL)
        .find(|(text, _)| output.raw().contains(text))
        .map(|(_, hint)| (*hint).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SecretStore;
    use crate::resource::{ActionBatch, ActionScript};
    use crate::script::ShellScript;
    use secrecy::ExposeSecret;
    use std::time::Duration;

    fn run_test_actions(actions: &[ActionScript]) -> Vec<ExecutedAction> {
        let token = ScriptToken::new("0123456789abcdef0123456789abcdef");
        let together =
            build_group_script(&actions.iter().map(GroupedAction::alone).collect::<Vec<_>>(), &UndoScripts::default());
        let script = ShellScript { body: together, token: token.clone(), limit: Duration::from_secs(10) };
        let text = script.render_text(&SecretStore::default()).unwrap();
        let output = std::process::Command::new("sh").arg("-c").arg(text.expose_secret()).output().unwrap();
        split_group_output(&output.stdout, 0, &token, actions.len())
    }

    fn ended_action(status: i32, output: &str) -> ExecutedAction {
        ExecutedAction { status: Some(status), began: true, output: output.into(), ..ExecutedAction::default() }
    }

    fn action_with_code(code: &'static str) -> ActionScript {
        ActionScript { body: ShellFragment::new().code(code), ..ActionScript::default() }
    }

    /// Runs a script of one action on a host that has SELinux or not; returns what it called `restorecon` with.
    fn run_with_selinux(code: &'static str, has_selinux: bool) -> (Vec<ExecutedAction>, String) {
        let folder = tempfile::tempdir().unwrap();
        let enforce = folder.path().join("enforce");
        let program = folder.path().join("restorecon");
        fs_err::write(&program, "#!/bin/sh\necho \"$@\" >>\"${0%/*}/calls\"\n[ ! -e \"${0%/*}/broken\" ] || exit 1\n")
            .unwrap();
        std::process::Command::new("chmod").arg("+x").arg(&program).status().unwrap();
        if has_selinux {
            fs_err::write(&enforce, "1").unwrap();
        }
        let action = action_with_code(code);
        let paths = ["/etc/motd".to_owned(), "/etc/it's here".to_owned()];
        let token = ScriptToken::new("0123456789abcdef0123456789abcdef");
        let body = build_group_script(
            &[GroupedAction { paths: &paths, ..GroupedAction::alone(&action) }],
            &UndoScripts::default(),
        );
        let script = ShellScript { body, token: token.clone(), limit: Duration::from_secs(10) };
        let text = script.render_text(&SecretStore::default()).unwrap();
        let text = text.expose_secret().replace("/sys/fs/selinux/enforce", enforce.to_str().unwrap());
        // A script sets its own PATH.
        let text = text.replace("|| restorecon", &format!("|| {}", program.display()));
        let output = std::process::Command::new("sh").arg("-c").arg(text).output().unwrap();
        let calls = fs_err::read_to_string(folder.path().join("calls")).unwrap_or_default();
        (split_group_output(&output.stdout, 0, &token, 1), calls)
    }

    #[test]
    fn written_paths_get_their_contexts_on_hosts_with_selinux_only() {
        let (acted, calls) = run_with_selinux("echo done", true);
        assert_eq!((acted, calls.as_str()), (vec![ended_action(0, "done")], "-i -- /etc/motd /etc/it's here\n"));
        let (acted, calls) = run_with_selinux("echo done", false);
        assert_eq!((acted, calls.as_str()), (vec![ended_action(0, "done")], ""));
        let (acted, calls) = run_with_selinux("exit 4", true);
        assert_eq!((acted, calls.as_str()), (vec![ended_action(4, "")], ""));
    }

    #[test]
    fn the_first_failure_ends_the_group() {
        let acted = run_test_actions(&[
            action_with_code("echo one"),
            action_with_code("echo two >&2; exit 3"),
            action_with_code("echo three"),
        ]);
        assert_eq!(acted[0], ended_action(0, "one"));
        assert_eq!(acted[1], ended_action(3, "two"));
        assert_eq!(acted[2], ExecutedAction::default());
    }

    #[test]
    fn first_action_of_a_batch_gets_the_words_of_the_others() {
        let code = || action_with_code("echo \"also=$FORGE_ALSO joined=$FORGE_JOINED\"");
        let batch = |key, words: &[&str]| {
            Some(ActionBatch { words: words.iter().map(ToString::to_string).collect(), ..ActionBatch::new(key) })
        };
        let (a, b, c) = (batch("apt", &["a"]), batch("apt", &["b=1", "c"]), batch("other", &["d"]));
        let scripts = [code(), code(), code(), code()];
        let batches = [&a, &b, &a, &c];
        let grouped = scripts
            .iter()
            .zip(batches)
            .map(|(script, batch)| GroupedAction { batch: batch.as_ref(), ..GroupedAction::alone(script) });
        let token = ScriptToken::new("0123456789abcdef0123456789abcdef");
        let body = build_group_script(&grouped.collect::<Vec<_>>(), &UndoScripts::default());
        let script = ShellScript { body, token: token.clone(), limit: Duration::from_secs(10) };
        let text = script.render_text(&SecretStore::default()).unwrap();
        let output = std::process::Command::new("sh").arg("-c").arg(text.expose_secret()).output().unwrap();
        let said = split_group_output(&output.stdout, 0, &token, 4);
        let said: Vec<&str> = said.iter().map(|one| one.output.raw()).collect();
        assert_eq!(said, ["also=b=1 c a joined=", "also= joined=yes", "also= joined=yes", "also= joined="]);
    }

    /// The directories of a run are synced once, before the end of its last action or of the one that failed.
    #[test]
    fn directories_of_a_run_are_synced_once_before_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sync");
        fs_err::write(&program, "#!/bin/sh\necho synced \"$@\"\n[ ! -e \"${0%/*}/broken\" ]\n").unwrap();
        std::process::Command::new("chmod").arg("+x").arg(&program).status().unwrap();
        let token = ScriptToken::new("0123456789abcdef0123456789abcdef");
        let run = |actions: &[(&'static str, Option<&str>)]| {
            let scripts: Vec<_> = actions.iter().map(|(code, _)| action_with_code(code)).collect();
            let batch = |directory: &Option<&str>| {
                directory.map(|at| ActionBatch { directory: Some(at.to_owned()), ..ActionBatch::new("f") })
            };
            let batches: Vec<_> = actions.iter().map(|(_, directory)| batch(directory)).collect();
            let grouped = scripts
                .iter()
                .zip(&batches)
                .map(|(script, batch)| GroupedAction { batch: batch.as_ref(), ..GroupedAction::alone(script) });
            let body = build_group_script(&grouped.collect::<Vec<_>>(), &UndoScripts::default());
            let script = ShellScript { body, token: token.clone(), limit: Duration::from_secs(10) };
            let text = script.render_text(&SecretStore::default()).unwrap();
            // A script sets its own PATH.
            let text = text.expose_secret().replace("sync --", &format!("{} --", program.display()));
            let output = std::process::Command::new("sh").arg("-c").arg(text).output().unwrap();
            split_group_output(&output.stdout, 0, &token, actions.len())
        };
        let (later, now) = ("echo \"later=$FORGE_LATER\"", "echo \"later=${FORGE_LATER-}\"");
        let acted = run(&[(later, Some("/a b")), (later, Some("/c")), (later, Some("/a b")), (now, None)]);
        let last = ended_action(0, "later=yes\nsynced -- /a b /c");
        assert_eq!(
            acted,
            [ended_action(0, "later=yes"), ended_action(0, "later=yes"), last, ended_action(0, "later=")]
        );
        let acted = run(&[(later, Some("/a")), ("exit 3", Some("/b")), (later, Some("/c"))]);
        assert_eq!(acted[..2], [ended_action(0, "later=yes"), ended_action(3, "synced -- /a /b /c")]);
        assert!(!acted[2].began);
        assert_eq!(run(&[(now, Some("/a")), (now, None)]), [ended_action(0, "later="), ended_action(0, "later=")]);
        fs_err::write(folder.path().join("broken"), "").unwrap();
        let acted = run(&[(later, Some("/a")), (later, Some("/b"))]);
        assert_eq!(acted, [ended_action(0, "later=yes"), ended_action(1, "later=yes\nsynced -- /a /b")]);
    }

    #[test]
    fn exit_in_one_action_does_not_affect_later_actions() {
        let acted =
            run_test_actions(&[action_with_code("x=1; cd /; exit 0"), action_with_code("echo \"${x-unset} $(pwd)\"")]);
        assert_eq!(acted[0].status, Some(0));
        assert!(acted[1].output.raw().starts_with("unset "));
        assert_eq!(acted[1].status, Some(0));
    }

    #[test]
    fn exported_value_excludes_stderr() {
        let token = ScriptToken::new("0123456789abcdef0123456789abcdef");
        let action = action_with_code("echo a warning >&2; echo the value");
        let script = ShellScript {
            body: build_group_script(
                &[GroupedAction { exports_stdout: true, ..GroupedAction::alone(&action) }],
                &UndoScripts::default(),
            ),
            token: token.clone(),
            limit: Duration::from_secs(10),
        };
        let text = script.render_text(&SecretStore::default()).unwrap();
        let output = std::process::Command::new("sh").arg("-c").arg(text.expose_secret()).output().unwrap();
        assert_eq!(split_group_output(&output.stdout, 0, &token, 1)[0].output, "the value".into());
        assert_eq!(output.stderr, b"a warning\n");
    }

    #[test]
    fn action_without_end_frame_has_no_exit_status() {
        let acted = split_group_output(b"\nt begin 0\nhalf of it", 0, &ScriptToken::new("t"), 2);
        let open = ExecutedAction { began: true, output: "half of it".into(), ..ExecutedAction::default() };
        assert_eq!(acted, [open, ExecutedAction::default()]);
    }

    /// Only the last part of a long output is kept: with the end frame, without the begin frame.
    #[test]
    fn action_without_begin_frame_keeps_its_exit_status() {
        let token = ScriptToken::new("t");
        let acted = split_group_output(b"rd half\nlast\n\nt end 0 7\n", 99, &token, 2);
        let first = ExecutedAction {
            status: Some(7),
            began: true,
            output: "last".into(),
            cut: true,
            ..ExecutedAction::default()
        };
        assert_eq!(acted, [first, ExecutedAction::default()]);
        let acted = split_group_output(b"lf\nx\n\nt end 1 0\n\nt begin 2\nok\n\nt end 2 0\n", 99, &token, 3);
        let gone = ExecutedAction { status: Some(0), began: true, cut: true, ..ExecutedAction::default() };
        assert_eq!(acted, [gone.clone(), ExecutedAction { output: "x".into(), ..gone.clone() }, ended_action(0, "ok")]);
        let acted = split_group_output(b"\nt begin 1\nno end", 99, &token, 2);
        assert_eq!(acted, [gone, ExecutedAction { began: true, output: "no end".into(), ..ExecutedAction::default() }]);
        assert!(
            has_group_begun(b"x\nt end 0 0\n", 0, &token)
                && has_group_begun(b"x", 99, &token)
                && !has_group_begun(b"x", 0, &token)
        );
    }

    #[test]
    fn output_without_frames_marks_every_action_as_begun() {
        let acted = split_group_output(b"half a secr\nlast", 99, &ScriptToken::new("t"), 2);
        let open = ExecutedAction { began: true, output: "last".into(), cut: true, ..ExecutedAction::default() };
        assert_eq!(acted, [open.clone(), open]);
    }

    #[test]
    fn output_tail_is_limited_in_lines_and_bytes() {
        let long = "é".repeat(100_000);
        assert_eq!(tail_output(&long.as_str().into()).raw().len(), 16 * 1024);
        let lines = "x\n".repeat(99);
        assert_eq!(tail_output(&lines.as_str().into()).raw().lines().count(), 20);
    }
}
