//! The generated steps, their order, and refusals.

use super::*;
use crate::config::StepFilter;
use crate::engine::event::{StepFailure, StepResult};
use crate::engine::history::{PastRun, StepInFlight};
use crate::engine::host_report::empty_report;
use crate::engine::report::{HostReport, RunReport, StepReport};
use crate::engine::undo_request::ChangedSteps;
use crate::model::{BootUndo, HostOutcome, UndoEffect};
use crate::state::{RunInfo, UndoneStep};

fn step(name: &str, effect: UndoEffect) -> UndoStep {
    UndoStep {
        step: StepId::new("web", name),
        kind: "file".into(),
        title: name.into(),
        effect,
        secret: false,
        restart_on: Vec::new(),
        guard_s: None,
        records: vec![FormerRecord { step: StepId::new("web", name), body: None }],
    }
}

/// What `stat` says about a path whose inode was changed at that second.
fn stat(path: &str, changed: u32) -> (String, PathStat) {
    PathStat::parse(&format!("{changed} 81a4 0 0 7 1 {path}")).unwrap()
}

/// A group whose paths have these states before; after and now they are equal.
fn group(number: u64, states: &[(&str, &str)], steps: Vec<UndoStep>) -> JournalGroup {
    let text = |(path, state): &(&str, &str)| ((*path).to_owned(), FormerState::parse(state).unwrap());
    let after: BTreeMap<String, PathStat> = states.iter().map(|(path, _)| stat(path, 1)).collect();
    JournalGroup {
        number,
        group: UndoGroup::new("lab", "r1", steps),
        before: states.iter().map(text).collect(),
        ended: true,
        same: BTreeSet::new(),
        now: after.clone(),
        after,
        ..JournalGroup::default()
    }
}

fn build(selection: UndoSelection<'_>, groups: Vec<JournalGroup>) -> GeneratedUndo {
    let journal = HostJournal { groups, ..HostJournal::default() };
    build_undo("lab", selection, vec![(HostName::new("a"), journal)])
}

fn all(filter: &StepFilter) -> UndoSelection<'_> {
    UndoSelection { run: "r1", filter, overwrite: false, changed: None }
}

fn generated_steps(undo: &GeneratedUndo) -> Vec<Value> {
    let text = &undo.request.recipes[0].text;
    serde_json::from_str::<Value>(text).unwrap()["steps"].as_array().unwrap().clone()
}

fn refusals(undo: &GeneratedUndo) -> Vec<(String, &str)> {
    let text = |refusal: &UndoRefusal| refusal.step.as_ref().map(ToString::to_string).unwrap_or_default();
    undo.refused.iter().map(|refusal| (text(refusal), refusal.why.as_str())).collect()
}

#[test]
fn last_change_is_undone_first_and_processes_restart_at_the_end() {
    let restarted = UndoDeclaration {
        restarts: true,
        ..UndoDeclaration::present("service", json!({ "name": "nginx", "state": "running" }))
    };
    let service = UndoStep {
        restart_on: vec![StepId::new("web", "config")],
        ..step("service", UndoEffect::declare(vec![restarted]))
    };
    let groups = vec![
        group(
            0,
            &[],
            vec![step(
                "folder",
                UndoEffect::declare(vec![UndoDeclaration::absent("directory", json!({ "path": "/srv/d" }))]),
            )],
        ),
        group(1, &[("/d/c", "file")], vec![step("config", UndoEffect::restore_paths(["/d/c"])), service]),
    ];
    let undo = build(all(&StepFilter::default()), groups);
    assert_eq!(
        generated_steps(&undo),
        [
            json!({ "name": "web config", "restore": { "path": "/d/c", "copy": "/var/lib/forge/undo/r1/1-0" } }),
            json!({ "name": "web folder", "when": "false", "otherwise": "absent", "directory": { "path": "/srv/d" } }),
            json!({
                "name": "web service", "restart_on": ["web config"],
                "service": { "name": "nginx", "state": "running" },
            }),
        ]
    );
    assert_eq!((undo.changes, undo.refused.len()), (3, 0));
    let named = |names: &[&str]| names.iter().map(|name| StepId::new("undo", name)).collect::<BTreeSet<_>>();
    let changes = undo.request.list_changes(&HostName::new("a"));
    let told: Vec<_> =
        changes.iter().map(|change| (&*change.step.step, change.generated.clone(), change.records.len())).collect();
    let expected = [
        ("config", named(&["web config"]), 1),
        ("folder", named(&["web folder"]), 1),
        ("service", named(&["web service"]), 1),
    ];
    assert_eq!(told, expected, "each record is restored with its own step");
}

#[test]
fn file_of_a_unit_is_removed_once_the_unit_is_stopped() {
    let stop = |unit: &str| UndoDeclaration::present("service", json!({ "name": unit, "state": "stopped" }));
    let service = |name: &str, unit: &str| step(name, UndoEffect::declare(vec![stop(unit)]));
    let paths = ["/etc/systemd/system/w@.service", "/etc/systemd/system/x.service", "/etc/w.conf"];
    let groups = vec![group(
        0,
        &[(paths[0], "none"), (paths[1], "file"), (paths[2], "none")],
        vec![
            step("files", UndoEffect::restore_paths(paths)),
            service("instance", "w@1.service"),
            service("other", "x.service"),
        ],
    )];
    let undo = build(all(&StepFilter::default()), groups);
    let steps = generated_steps(&undo);
    let needs = |path: &str| steps.iter().find(|step| step["restore"]["path"] == path).unwrap()["needs"].clone();
    assert_eq!(needs(paths[0]), json!([{ "step": "web instance" }]));
    assert_eq!((needs(paths[1]), needs(paths[2])), (Value::Null, Value::Null), "a file that is restored, and another");
}

#[test]
fn undo_that_restores_nothing_lists_what_it_leaves() {
    let lost = UndoEffect { lost: Some("the links that enabled `w`".to_owned()), ..UndoEffect::default() };
    let leaves = UndoEffect::default().leaving("`/etc/w` stays");
    let undo = build(all(&StepFilter::default()), vec![group(0, &[], vec![step("a", lost), step("b", leaves)])]);
    assert!(undo.request.recipes.is_empty() && undo.refused.is_empty());
    assert_eq!(undo.changes, 0);
    let remains = |what: &str| (what.to_owned(), vec![HostName::new("a")]);
    let expected = [remains("`/etc/w` stays"), remains("the links that enabled `w`")];
    assert_eq!(undo.remains.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn undo_of_a_guarded_change_is_guarded() {
    let guarded = UndoStep { guard_s: Some(90), ..step("file", UndoEffect::restore_paths(["/f"])) };
    let user = UndoDeclaration::absent("user", json!({ "name": "u" }));
    let account = UndoStep { guard_s: Some(90), ..step("user", UndoEffect::declare(vec![user])) };
    let undo = build(all(&StepFilter::default()), vec![group(0, &[("/f", "none")], vec![guarded, account])]);
    let guards: Vec<_> = generated_steps(&undo).iter().map(|step| step["guard"].clone()).collect();
    assert_eq!(guards, [Value::Null, json!("90s")], "an account has no guard");
}

#[test]
fn file_that_several_steps_changed_gets_its_first_state() {
    let groups = vec![
        group(0, &[("/f", "none")], vec![step("file", UndoEffect::restore_paths(["/f"]))]),
        group(1, &[("/f", "file")], vec![step("line", UndoEffect::restore_paths(["/f"]))]),
    ];
    let undo = build(all(&StepFilter::default()), groups.clone());
    assert_eq!(generated_steps(&undo), [json!({ "name": "web line", "restore": { "path": "/f" } })]);
    let restored = undo.request.list_changes(&HostName::new("a")).iter();
    let restored: Vec<_> = restored.map(|change| (&*change.step.step, &*change.last.step)).collect();
    assert_eq!(restored, [("file", "web line"), ("line", "web line")], "both are undone with the file");
    let only = StepFilter::new(&["web/line".to_owned()], &[]);
    let part = build(all(&only), groups);
    let why = "`/f` was also changed by `web/file`, which is not undone";
    assert_eq!(refusals(&part), [("web/line".to_owned(), why)]);
    assert_eq!(part.changes, 0);
}

const TOUCHED: &str = "`/f` was written or touched after the run; its size, owner and mode are unchanged";

/// A file that is restored, and a unit that the declared removal of its timer takes.
#[test]
fn file_that_was_changed_after_the_run_is_refused() {
    let timer = UndoDeclaration::absent("timer", json!({ "name": "t", "command": "true" }));
    let boot = BootUndo { paths: vec!["/f".to_owned()], ..BootUndo::default() };
    let removed = UndoEffect::declare(vec![timer]).removing(boot.paths.clone()).with_boot(boot);
    let filter = StepFilter::default();
    for effect in [UndoEffect::restore_paths(["/f"]), removed] {
        let left = group(0, &[("/f", "file")], vec![step("file", effect)]);
        assert_eq!(build(all(&filter), vec![left.clone()]).changes, 1);
        let mut moved = left;
        moved.now.extend([stat("/f", 2)]);
        let undo = build(all(&filter), vec![moved.clone()]);
        assert_eq!(refusals(&undo), [("web/file".to_owned(), TOUCHED)]);
        moved.now.extend(PathStat::parse("2 81a4 0 0 8 1 /f"));
        let undo = build(all(&filter), vec![moved.clone()]);
        assert_eq!(refusals(&undo), [("web/file".to_owned(), "`/f` was changed after the run")]);
        let overwritten = build(UndoSelection { overwrite: true, ..all(&filter) }, vec![moved]);
        assert_eq!((overwritten.refused.len(), overwritten.changes), (0, 1));
    }
}

#[test]
fn overwriting_undo_lifts_the_guard_of_a_removal() {
    let fields = json!({ "into": "/opt/a", "path": "/stamp.tar", "only_unchanged": true });
    let made = || {
        group(0, &[], vec![step("ar", UndoEffect::declare(vec![UndoDeclaration::absent("archive", fields.clone())]))])
    };
    let filter = StepFilter::default();
    let guarded = |overwrite: bool| {
        let undo = build(UndoSelection { overwrite, ..all(&filter) }, vec![made()]);
        generated_steps(&undo)[0]["archive"]["only_unchanged"].clone()
    };
    assert_eq!((guarded(false), guarded(true)), (json!(true), json!(false)));
}

#[test]
fn file_that_is_as_before_again_is_not_refused() {
    let mut moved = group(0, &[("/f", "file")], vec![step("file", UndoEffect::restore_paths(["/f"]))]);
    moved.now.extend([stat("/f", 2)]);
    moved.same.insert("/f".into());
    let undo = build(all(&StepFilter::default()), vec![moved]);
    assert_eq!((undo.refused.len(), undo.changes), (0, 1), "an interrupted undo is finished by the next one");
}

#[test]
fn step_that_a_later_run_changed_is_refused() {
    let groups = vec![group(0, &[("/f", "file")], vec![step("file", UndoEffect::restore_paths(["/f"]))])];
    let mut journal = HostJournal { groups, ..HostJournal::default() };
    journal.later.add_group(UndoGroup::new("lab", "r2", vec![step("file", UndoEffect::default())]));
    let build = |journal: &HostJournal| {
        build_undo("lab", all(&StepFilter::default()), vec![(HostName::new("a"), journal.clone())])
    };
    assert_eq!(refusals(&build(&journal)), [("web/file".to_owned(), "run r2 changed it again: undo that run first")]);

    // The later run was undone, and the file is what that run found.
    let web = StepId::new("web", "file");
    journal.later.add_undone([UndoneStep { run: "r2".into(), step: web.clone(), by: "r3".into() }]);
    journal.groups[0].now.extend([stat("/f", 3)]);
    assert_eq!(refusals(&build(&journal)), [("web/file".to_owned(), TOUCHED)]);
    journal.later.add_path("file back 2 81a4 0 0 7 1 /f").unwrap();
    let undo = build(&journal);
    assert_eq!((undo.refused.len(), undo.changes), (0, 1));
    let changes = undo.request.list_changes(&HostName::new("a"));
    assert_eq!((&changes[0].step, &changes[0].last), (&web, &StepId::new("undo", "web file")));
}

/// The other steps can be undone.
#[test]
fn state_that_no_recipe_can_declare_is_refused() {
    let directory = |path: &str, owner: &str| {
        let fields = json!({ "path": path, "owner": owner, "group": "root", "mode": "0755" });
        step(path, UndoEffect::declare(vec![UndoDeclaration::present("directory", fields)]))
    };
    let filter = StepFilter::default();
    let undo = build(all(&filter), vec![group(1, &[], vec![directory("/d", "5555"), directory("/e", "eve")])]);
    let why = "no recipe can declare the state before: `owner` is a number, not a name";
    assert_eq!(refusals(&undo), [("web//d".to_owned(), why)]);
    assert_eq!(generated_steps(&undo).len(), 1);
}

#[test]
fn unfinished_script_is_undone_with_a_note() {
    let mut cut = group(0, &[("/f", "none")], vec![step("file", UndoEffect::restore_paths(["/f"]))]);
    cut.ended = false;
    cut.after.clear();
    let undo = build(all(&StepFilter::default()), vec![cut]);
    let note = "whether `/f` was changed since is not known: the run was interrupted";
    assert_eq!(undo.remains.keys().map(String::as_str).collect::<Vec<_>>(), [note]);
    assert_eq!(undo.changes, 1);
}

#[test]
fn hosts_with_equal_steps_share_a_recipe() {
    let groups = |path: &str| vec![group(0, &[(path, "none")], vec![step("file", UndoEffect::restore_paths([path]))])];
    let journal = |path| HostJournal { groups: groups(path), ..HostJournal::default() };
    let journals = ["/f", "/g", "/f"].iter().zip(["a", "b", "c"]);
    let journals = journals.map(|(path, host)| (HostName::new(host), journal(path))).collect();
    let undo = build_undo("lab", all(&StepFilter::default()), journals);
    let recipes: Vec<(&str, Vec<&str>)> = undo
        .request
        .recipes
        .iter()
        .map(|recipe| (recipe.name.as_str(), recipe.hosts.iter().map(HostName::as_str).collect()))
        .collect();
    assert_eq!(recipes, [("undo", vec!["a", "c"]), ("undo-2", vec!["b"])]);
    assert_eq!(undo.request.list_changes(&HostName::new("b"))[0].last, StepId::new("undo-2", "web file"));
}

#[test]
fn text_of_a_host_is_never_a_template() {
    let user = UndoDeclaration::present("user", json!({ "name": "u", "comment": "{{ facts.os }}" }));
    let undo =
        build(all(&StepFilter::default()), vec![group(0, &[], vec![step("u", UndoEffect::declare(vec![user]))])]);
    assert_eq!(generated_steps(&undo)[0]["user"]["comment"], "{{ '{' }}{{ '{' }} facts.os }}");
}

/// A run that changed `web/file` of `a` and tried `web/other`; nothing of `b`.
fn past_run() -> PastRun {
    let step = |name: &str, result: StepResult, took: u64| StepReport {
        id: StepId::new("web", name),
        title: name.into(),
        result,
        hint: None,
        check: None,
        changes: Vec::new(),
        took: std::time::Duration::from_millis(took),
        place: String::new(),
    };
    let failure = StepFailure { why: "exit status 1".into(), tail: "".into(), hint: None, log: None, artifact: false };
    let failed = || StepResult::Failed { failure: failure.clone() };
    let matches = StepResult::AlreadyOk { reason: "matches".into() };
    let steps = vec![
        step("file", StepResult::Changed, 5),
        step("other", failed(), 5),
        step("not begun", failed(), 0),
        step("same", matches, 0),
    ];
    let report = |host: &str| empty_report(&HostName::new(host), HostOutcome::Changed, "".into());
    let hosts = vec![HostReport { steps, ..report("a") }, report("b")];
    let report = RunReport {
        version: 1,
        run: "r1".into(),
        verb: "apply".into(),
        cluster: "lab".into(),
        plan: None,
        simulated: Vec::new(),
        hosts,
        budget_spent: false,
        interrupted: false,
        evict_busy: None,
        took: Default::default(),
    };
    let in_flight = vec![StepInFlight { host: HostName::new("b"), step: StepId::new("web", "slow"), since: None }];
    PastRun { info: RunInfo::default(), finished: false, active: false, in_flight, report }
}

fn build_forgotten(selection: UndoSelection<'_>, host: &str, oldest: Option<&str>) -> Vec<(String, String)> {
    let journal = HostJournal { oldest: oldest.map(str::to_owned), ..HostJournal::default() };
    let undo = build_undo("lab", selection, vec![(HostName::new(host), journal)]);
    assert_eq!(undo.forgotten, undo.refused.len());
    refusals(&undo).into_iter().map(|(step, why)| (step, why.to_owned())).collect()
}

#[test]
fn change_that_the_host_does_not_keep_is_refused() {
    let (changed, filter) = (ChangedSteps::from_run(&past_run()), StepFilter::default());
    let known = UndoSelection { changed: Some(&changed), ..all(&filter) };
    let refused = |step: &str| (step.to_owned(), FORGOTTEN.to_owned());
    let tried = |step: &str| (step.to_owned(), NOTHING_KEPT.to_owned());
    assert_eq!(build_forgotten(known, "a", Some("r2")), [refused("web/file"), tried("web/other")]);
    assert_eq!(build_forgotten(known, "b", None), [tried("web/slow")], "a step in flight may have changed the host");
    assert_eq!(build_forgotten(known, "a", Some("r0")), [refused("web/file")], "the failed step changed nothing");
    assert_eq!(build_forgotten(known, "c", Some("r2")), [], "the run was not on this host");
    let only = StepFilter::new(&["web/other".to_owned()], &[]);
    assert_eq!(build_forgotten(UndoSelection { filter: &only, ..known }, "a", None), [tried("web/other")]);
}

#[test]
fn run_that_neither_machine_keeps_is_refused() {
    let filter = StepFilter::default();
    let refused = [(String::new(), NOT_KNOWN.to_owned())];
    assert_eq!(build_forgotten(all(&filter), "a", Some("r2")), refused);
    assert_eq!(build_forgotten(all(&filter), "a", None), refused);
    assert_eq!(build_forgotten(all(&filter), "a", Some("r0")), [], "the host removes the oldest runs first");
}

#[test]
fn report_names_what_is_not_undone() {
    let (changed, filter) = (ChangedSteps::from_run(&past_run()), StepFilter::default());
    let known = UndoSelection { changed: Some(&changed), ..all(&filter) };
    let mut undo = build_undo("lab", known, vec![(HostName::new("a"), HostJournal::default())]);
    undo.refuse_missing_hosts(known, &[HostName::new("a")]);
    undo.silent = vec![(HostName::new("c"), "connection refused".to_owned())];
    let request = undo.into_request();
    let report = |host: &str| empty_report(&HostName::new(host), HostOutcome::Ok, "no change".into());
    let mut reports = vec![report("a"), report("c"), report("d")];
    request.report_left_changes(&mut reports);
    let named: Vec<_> = reports
        .iter()
        .map(|report| (report.host.as_str(), report.outcome, report.reason.raw(), report.not_undone.len()))
        .collect();
    let gone = "not undone: the inventory does not declare the host any longer";
    assert_eq!(
        named,
        [
            ("a", HostOutcome::Skipped, "not undone: the state before the run is not kept there", 2),
            ("c", HostOutcome::Unreachable, "not undone: connection refused", 0),
            ("d", HostOutcome::Ok, "no change", 0),
            ("b", HostOutcome::Skipped, gone, 1),
        ]
    );
}

/// A command that `remove` undoes, as the journal keeps it.
fn command_step(fields: &Value) -> UndoStep {
    UndoStep {
        kind: "command".into(),
        ..step("install", UndoEffect::declare(vec![UndoDeclaration::absent("command", fields.clone())]))
    }
}

fn build_command(fields: &Value, recorded: Option<&str>) -> GeneratedUndo {
    let name = StepId::new("web", "install").record_name("lab");
    let recorded = recorded.map(|run| (name, run.to_owned())).into_iter().collect();
    let groups = vec![group(3, &[], vec![command_step(fields)])];
    let journal = HostJournal { groups, recorded, ..HostJournal::default() };
    build_undo("lab", all(&StepFilter::default()), vec![(HostName::new("a"), journal)])
}

#[test]
fn unproven_command_is_removed_whatever_its_check_says() {
    let fields = json!({ "check": "test -e /o/done", "apply": "a", "remove": "rm -rf /o", "env": { "A": "b" } });
    let own = json!({ "when": "false", "otherwise": "absent", "command": fields });
    let named = |name: &str| {
        let mut step = own.clone();
        step["name"] = json!(name);
        step
    };
    for run in ["r1", "r2"] {
        assert_eq!(generated_steps(&build_command(&fields, Some(run))), [named("web install")], "a run proved it");
    }
    let rest = json!({
        "name": "web install", "when": "false", "otherwise": "absent",
        "command": {
            "check": "false", "env": { "A": "b" },
            "remove": "sh -c 'rm -rf /o' && : >'/var/lib/forge/undo/r1/3-0.removed'",
            "removed": "[ -e '/var/lib/forge/undo/r1/3-0.removed' ]",
        },
    });
    for run in [None, Some("r0")] {
        let undo = build_command(&fields, run);
        assert_eq!(generated_steps(&undo), [rest.clone(), named("web install 2")]);
        assert_eq!(undo.request.list_changes(&HostName::new("a"))[0].generated.len(), 2);
    }
}

/// Its undo removed the record.
#[test]
fn command_that_is_undone_already_was_proven() {
    let fields = json!({ "check": "c", "apply": "a", "remove": "r", "user": "app" });
    let groups = vec![group(3, &[], vec![command_step(&fields)])];
    let settled = [StepId::new("web", "install")].into();
    let journal = HostJournal { groups, settled, ..HostJournal::default() };
    let undo = build_undo("lab", all(&StepFilter::default()), vec![(HostName::new("a"), journal)]);
    assert_eq!((undo.refused.len(), generated_steps(&undo).len()), (0, 1));
}

#[test]
fn unproven_command_of_another_user_needs_its_own_check_of_the_removal() {
    let mut fields = json!({ "check": "c", "apply": "a", "remove": "r", "user": "app" });
    let refused = build_command(&fields, None);
    let why = "the run did not prove the command: then only one of root, or one that declares `removed`, can be undone";
    assert_eq!(refusals(&refused), [("web/install".to_owned(), why)]);
    fields["removed"] = json!("test ! -e /o");
    let undo = build_command(&fields, None);
    assert_eq!((undo.refused.len(), generated_steps(&undo).len()), (0, 1));
}
