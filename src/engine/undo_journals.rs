//! Reads the undo journals of hosts and of the cluster.

use super::cancel::CancelSignal;
use super::event::EventSender;
use super::exec::{ExecCommand, ExecHostResult, exec};
use super::later_changes::PathStat;
use super::run_options::RunOptions;
use super::undo_cluster::{ClusterJournalError, read_cluster_journal};
use super::undo_recipe::{HostJournal, JournalGroup, build_undo};
use super::undo_request::{GeneratedUndo, UndoRefusal, UndoSelection};
use crate::config::Project;
use crate::model::{HostName, HostOutcome};
use crate::state::{FormerState, READ_JOURNAL, UndoGroup, UndoneStep};

/// Reads what `hosts` kept before a run, and returns the recipes that undo it.
pub async fn read_undo(
    project: &Project,
    hosts: &[HostName],
    selection: UndoSelection<'_>,
    options: &RunOptions,
    events: &EventSender,
    cancel: &CancelSignal,
) -> GeneratedUndo {
    let (of_cluster, hosts): (Vec<HostName>, Vec<HostName>) = hosts.iter().cloned().partition(HostName::is_cluster);
    let words = ["sh", "-c", READ_JOURNAL, "sh", selection.run].map(str::to_owned);
    let report = exec(project, &hosts, &ExecCommand::Words(words.into()), options, events, cancel).await;
    let (mut journals, mut refused, mut silent) = (Vec::new(), Vec::new(), Vec::new());
    for done in report.hosts {
        match (done.outcome, read_answer(&done)) {
            (_, Ok(journal)) => journals.push((done.host, journal)),
            (HostOutcome::Unreachable | HostOutcome::Cancelled, Err(why)) => silent.push((done.host, why)),
            (_, Err(why)) => refused.push(UndoRefusal { host: done.host, step: None, why }),
        }
    }
    for cluster in of_cluster {
        match read_cluster_journal(project, selection, options).await {
            Ok(journal) => journals.push((cluster, journal)),
            Err(ClusterJournalError::Silent(why)) => silent.push((cluster, why)),
            Err(ClusterJournalError::Refused(why)) => {
                refused.push(UndoRefusal { host: cluster, step: None, why });
            }
        }
    }
    let mut undo = build_undo(&project.cluster, selection, journals);
    undo.refused.splice(0..0, refused);
    undo.silent = silent;
    undo
}

/// Returns the journal of a host, or why it is not known: a lowercase fragment.
fn read_answer(done: &ExecHostResult) -> Result<HostJournal, String> {
    match done.outcome {
        HostOutcome::Ok if done.left_out == 0 => {
            parse_journal(done.stdout.raw()).ok_or_else(|| "the undo journal cannot be read".to_owned())
        }
        HostOutcome::Ok => Err("the undo journal is too large".to_owned()),
        _ => {
            let said = done.stderr.raw().lines().last().unwrap_or_default().trim();
            Err(if said.is_empty() { done.reason.raw() } else { said }.to_owned())
        }
    }
}

/// Parses the fields that [`READ_JOURNAL`] prints.
pub(super) fn parse_journal(text: &str) -> Option<HostJournal> {
    let mut journal = HostJournal::default();
    let mut fields = text.split_terminator('\0');
    while let Some(key) = fields.next() {
        let value = fields.next()?;
        if key == "group" {
            let (_, body) = (fields.next().filter(|key| *key == "json")?, fields.next()?);
            let group = UndoGroup::parse(body)?;
            journal.groups.push(JournalGroup { number: value.parse().ok()?, group, ..JournalGroup::default() });
            continue;
        }
        if key == "later" {
            journal.later.add_group(UndoGroup::parse(value)?);
            continue;
        }
        if key == "found" {
            journal.later.add_path(value)?;
            continue;
        }
        if key == "oldest" {
            journal.oldest = Some(value.to_owned());
            continue;
        }
        if key == "recorded" {
            let (name, run) = value.strip_suffix('"')?.rsplit_once(":\"run\":\"")?;
            journal.recorded.insert((name.to_owned(), run.to_owned()));
            continue;
        }
        if key == "settled" {
            journal.settled.extend(UndoneStep::parse_lines(value).into_iter().map(|mark| mark.step));
            continue;
        }
        if key == "undone" {
            journal.later.add_undone(UndoneStep::parse_lines(value));
            continue;
        }
        let last = journal.groups.last_mut()?;
        match key {
            "before" => {
                let (state, path) = value.split_once(' ')?;
                last.before.insert(path.to_owned(), FormerState::parse(state)?);
            }
            "ended" => last.ended = true,
            "same" => drop(last.same.insert(value.to_owned())),
            "after" => last.after.extend([PathStat::parse(value)?]),
            "now" => last.now.extend([PathStat::parse(value)?]),
            _ => return None,
        }
    }
    journal.groups.sort_by_key(|group| group.number);
    Some(journal)
}

#[cfg(test)]
mod tests {
    use super::super::action_script::{build_group_script, split_group_output};
    use super::super::grouped_action::GroupedAction;
    use super::*;
    use crate::model::{StepId, UndoEffect, UndoRetention};
    use crate::resource::ActionScript;
    use crate::script::{ScriptToken, ShellFragment};
    use crate::state::{StepRecord, UndoStep};
    use secrecy::ExposeSecret;
    use std::process::Command;

    /// Runs a script with another directory in place of `/var/lib/forge`.
    fn run(fragment: ShellFragment, root: &str) -> String {
        let text = fragment.render(&Default::default()).unwrap();
        run_text(text.expose_secret(), root, &[])
    }

    fn run_text(text: &str, root: &str, arguments: &[&str]) -> String {
        let text = text.replace("/var/lib/forge", &format!("{root}/forge"));
        let done = Command::new("sh").arg("-c").arg(text).arg("sh").args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn group(run: &str, paths: &[String]) -> UndoGroup {
        let step = UndoStep {
            step: StepId::new("web", "page"),
            kind: "file".into(),
            title: paths[0].clone(),
            effect: UndoEffect::restore_paths(paths),
            secret: false,
            restart_on: Vec::new(),
            guard_s: None,
            records: Vec::new(),
        };
        UndoGroup::new("lab", run, vec![step])
    }

    #[test]
    fn journal_of_a_host_holds_the_state_before_and_after() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        std::fs::create_dir(folder.path().join("forge")).unwrap();
        let old = format!("{root}/it's old");
        let new = format!("{root}/new");
        std::fs::write(&old, "before\n").unwrap();
        let scripts = group("r1", &[old.clone(), new.clone()]).build_scripts(0, UndoRetention::default());
        run(scripts.before.clone(), root);
        std::fs::write(&old, "after\n").unwrap();
        std::fs::write(&new, "made\n").unwrap();
        // A second attempt keeps what the first one found.
        run(scripts.before, root);
        run(scripts.after, root);
        let journal = parse_journal(&run_text(READ_JOURNAL, root, &["r1"])).unwrap();
        let only = &journal.groups[0];
        let states: Vec<(&str, FormerState)> =
            only.before.iter().map(|(path, state)| (path.as_str(), *state)).collect();
        assert_eq!(states, [(old.as_str(), FormerState::File), (new.as_str(), FormerState::Nothing)]);
        assert_eq!((only.ended, &only.after), (true, &only.now));
        assert_eq!(only.after.len(), 2);
        let copy = UndoGroup::copy_path("r1", 0, 0).replace("/var/lib/forge", &format!("{root}/forge"));
        assert_eq!(std::fs::read_to_string(copy).unwrap(), "before\n");
        assert!(only.same.is_empty(), "{:?}", only.same);
        std::fs::write(&old, "before\n").unwrap();
        std::fs::remove_file(&new).unwrap();
        let again = parse_journal(&run_text(READ_JOURNAL, root, &["r1"])).unwrap();
        assert_eq!(again.groups[0].same, [old.clone(), new.clone()].into());
        std::fs::write(&old, "after\n").unwrap();
        run(group("r1", &[old.clone(), new.clone()]).build_scripts(0, UndoRetention::default()).after, root);
        std::fs::write(&new, "made by hand\n").unwrap();
        let moved = parse_journal(&run_text(READ_JOURNAL, root, &["r1"])).unwrap();
        assert_ne!(moved.groups[0].after.get(&new), moved.groups[0].now.get(&new));
        assert_eq!(moved.groups[0].after.get(&old), moved.groups[0].now.get(&old));
    }

    /// The records of earlier steps are in their places before the first action begins, also if the state before cannot
    /// be kept.
    #[test]
    fn records_are_placed_with_the_state_before_the_change() {
        let id = StepId::new("web", "earlier");
        let record = StepRecord::new("lab", &id, "file", "/f", "sha256:0".into(), None);
        for broken in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().to_str().unwrap();
            fs_err::create_dir_all(folder.path().join("forge/applied/.new")).unwrap();
            if broken {
                fs_err::write(folder.path().join("forge/undo"), "not a directory").unwrap();
            }
            let undo = group("r1", &[format!("{root}/x")]).build_scripts(0, UndoRetention::default());
            let (records, undo) = undo.place_records(&[(id.clone(), record.clone())]);
            let action = ActionScript {
                body: ShellFragment::new().code("cd /var/lib/forge/applied && echo *"),
                ..ActionScript::default()
            };
            let group = build_group_script(&[GroupedAction::alone(&action)], &undo);
            let output =
                run(ShellFragment::new().code("FORGE_T=t\n").append_fragment(records).append_fragment(group), root);
            let acted = split_group_output(output.as_bytes(), 0, &ScriptToken::new("t"), 1);
            let placed = folder.path().join("forge/applied").join(id.record_name("lab"));
            assert!(placed.is_file(), "{output}");
            match broken {
                false => assert_eq!(acted[0].output.raw(), id.record_name("lab")),
                true => assert!(acted[0].output.raw().ends_with("/forge/undo/r1"), "{output}"),
            }
            assert_eq!(acted[0].status, Some(i32::from(broken)));
            assert_eq!(fs_err::read_dir(folder.path().join("forge/applied/.new")).unwrap().count(), 0);
        }
    }

    #[test]
    fn journal_that_names_a_secret_is_rejected() {
        let mut altered = group("r1", &["/etc/motd".to_owned()]);
        assert!(UndoGroup::parse(&serde_json::to_string(&altered).unwrap()).is_some());
        altered.steps[0].title = format!("{}TOKEN{}", crate::model::PLACEHOLDER_OPEN, crate::model::PLACEHOLDER_CLOSE);
        let escaped = serde_json::to_string(&altered).unwrap().replace('\u{e000}', "\\ue000");
        assert!(UndoGroup::parse(&escaped).is_none());
    }

    #[test]
    fn later_runs_are_listed_and_the_oldest_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        std::fs::create_dir(folder.path().join("forge")).unwrap();
        for number in 10..32 {
            run(
                group(&format!("r{number}"), &[format!("{root}/x")]).build_scripts(0, UndoRetention::default()).before,
                root,
            );
        }
        let left = std::fs::read_dir(folder.path().join("forge/undo")).unwrap().count();
        assert_eq!(left, 20);
        // A change without paths: of a package, for example.
        for name in ["r30", "r31"] {
            let mut packages = group(name, &["/x".to_owned()]);
            packages.steps[0].effect = UndoEffect::default();
            run(packages.build_scripts(1, UndoRetention::default()).before, root);
        }
        let journal = parse_journal(&run_text(READ_JOURNAL, root, &["r30"])).unwrap();
        assert_eq!(journal.later.find_run("lab", &StepId::new("web", "page")), Some("r31"));
        assert_eq!(run_text(READ_JOURNAL, root, &["r10"]), "oldest\0r12\0");
        assert_eq!(parse_journal("oldest\0r12\0").unwrap().oldest.as_deref(), Some("r12"));
    }

    #[test]
    fn declared_retention_limits_runs_and_their_age() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        std::fs::create_dir(folder.path().join("forge")).unwrap();
        let add = |number: usize, kept| {
            run(group(&format!("r{number}"), &[format!("{root}/x")]).build_scripts(0, kept).before, root);
        };
        let list = || {
            let entries = std::fs::read_dir(folder.path().join("forge/undo")).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        (10..16).for_each(|number| add(number, UndoRetention { runs: 3, days: None }));
        assert_eq!(list(), ["r13", "r14", "r15"]);
        let old = Command::new("touch").args(["-d", "49 hours ago"]).arg(format!("{root}/forge/undo/r14")).status();
        assert!(old.unwrap().success());
        add(16, UndoRetention { runs: 9, days: Some(3) });
        assert_eq!(list(), ["r13", "r14", "r15", "r16"]);
        add(17, UndoRetention { runs: 9, days: Some(2) });
        assert_eq!(list(), ["r13", "r15", "r16", "r17"]);
    }
}
