//! Runs the recorded cases in `tests/resources/KIND/*.json`: from probe results to verdict, reason, changes and
//! commands. `FORGE_BLESS=1` rewrites the expectations; review them before you commit.

#![expect(clippy::disallowed_methods, reason = "tests run programs and read their own files")]

use crate::model::{BlockClass, SecretStore, StepVerdict, UntrustedText, Value};
use crate::object::ClusterCall;
use crate::object::{NamespaceContents, ObjectInfo, ProofState, ReleaseState};
use crate::probe::{
    AptEntry, CmdlineState, DnfEntry, DnfSources, GroupInfo, InitramfsState, ModuleState, MountState, Observation,
    PackageFileInfo, PackageManagerState,
};
use crate::probe::{
    PackageFamilyState, PackageState, Probe, ProbeReading, SysctlState, UnansweredReason, UnitState, UserInfo,
};
use crate::resource::shared::support::sha256_hex;
use crate::resource::{
    Action, Assessment, AssessmentContext, EarlierStepEffects, FieldSpec, FieldType, FieldValues, ProvidedItem,
    Resource, ResourceKind, RestartInput, find_kind,
};
use crate::script::safe_path;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A run name in the engine's format.
pub(in crate::resource) const RUN: &str = "20261121T093015-4f2a";

/// Minimum number of cases per kind.
const MIN_CASES: usize = 6;

fn case_files(kind: &ResourceKind) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/resources").join(kind.name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files
}

#[test]
fn recorded_cases_match_their_expectations() {
    let mut wrong = Vec::new();
    for kind in crate::resource::all_kinds() {
        let files = case_files(kind);
        assert!(files.len() >= MIN_CASES, "{} has only {} cases", kind.name, files.len());
        for file in files {
            let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap())
                .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let found = run_case(kind, &case);
            if std::env::var_os("FORGE_BLESS").is_some() {
                bless_case(&file, case, found);
            } else if case["expect"] != found {
                wrong.push(format_difference(&file, &case["expect"], &found));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every verdict has a reason, and only the verdict `change` lists changes.
#[test]
fn every_verdict_has_a_reason() {
    for kind in crate::resource::all_kinds() {
        for file in case_files(kind) {
            let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let expect = &case["expect"];
            let name = file.display();
            assert!(expect["reason"].as_str().is_some_and(|r| r.len() > 8 && !r.ends_with('.')), "{name}");
            let changes = expect["changes"].as_array().map_or(0, Vec::len);
            assert_eq!(expect["verdict"] == "change", changes > 0, "{name}");
            let origins = [json!("field"), json!("source"), json!("reconstructed")];
            assert!(origins.contains(&case["origin"]), "{name}: origin");
        }
    }
}

#[test]
fn every_kind_has_its_required_cases() {
    for kind in crate::resource::all_kinds() {
        let verdicts: Vec<Value> = case_files(kind)
            .iter()
            .map(|file| serde_json::from_str::<Value>(&std::fs::read_to_string(file).unwrap()).unwrap())
            .map(|case| case["expect"]["verdict"].clone())
            .collect();
        // A reboot is performed by the host's window, never by the step.
        let acts = if kind.name == "reboot" { "pending" } else { "change" };
        for needed in ["ok", acts, "unknown"] {
            assert!(verdicts.contains(&json!(needed)), "{}: no case with verdict {needed}", kind.name);
        }
    }
}

/// Every action parses in both shells.
#[test]
fn every_action_parses_as_posix_shell() {
    for kind in crate::resource::all_kinds() {
        for file in case_files(kind) {
            let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let Some(lines) = case["expect"]["commands"].as_array() else { continue };
            let text: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
            for shell in [["dash", "-n"].as_slice(), &["bash", "--posix", "-n"]] {
                let output =
                    std::process::Command::new(shell[0]).args(&shell[1..]).args(["-c", &text.join("\n")]).output();
                let output = output.unwrap();
                assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}

/// Prints the object and the aspect of every change that the cases contain, once for each label of a kind.
#[test]
fn every_change_names_the_object_that_logs_know() {
    let mut named = std::collections::BTreeMap::new();
    for kind in crate::resource::all_kinds() {
        for file in case_files(kind) {
            let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            assess_case(kind, &case, |resource, judgement, _| {
                for change in &judgement.changes {
                    let object = resource.changed_object(&change.mark);
                    let label = format!("{}: {}", kind.name, change.attribute);
                    named.entry(label).or_insert(format!("{:?} of {object:?}", change.mark.aspect));
                }
            });
        }
    }
    named.retain(|_, object| !object.ends_with("Nameless"));
    let lines: Vec<String> = named.iter().map(|(label, object)| format!("{label} = {object}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// Prints how the change of each case is undone: what is restored and declared, what remains, or why it cannot be.
#[test]
fn every_change_says_how_it_is_undone() {
    let mut lines = Vec::new();
    for kind in crate::resource::all_kinds() {
        let mut effects = std::collections::BTreeSet::new();
        for file in case_files(kind) {
            let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            assess_case(kind, &case, |resource, judgement, _| {
                if judgement.verdict == StepVerdict::Change && judgement.diff.is_some() {
                    let effect = resource.undo_effect(judgement);
                    if !kind.traits.in_cluster {
                        let refusal = effect.steps.iter().find_map(crate::resource::find_declaration_error);
                        effects.extend(refusal.map(|why| format!("refused, {why}")));
                    }
                    effects.insert(SecretStore::mask_placeholders(&serde_json::to_string(&effect).unwrap()));
                }
            });
        }
        lines.extend(effects.into_iter().map(|effect| format!("{}: {effect}", kind.name)));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

fn bless_case(file: &Path, mut case: Value, found: Value) {
    case["expect"] = found;
    std::fs::write(file, format!("{}\n", serde_json::to_string_pretty(&case).unwrap())).unwrap();
}

fn format_difference(file: &Path, expected: &Value, found: &Value) -> String {
    let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    let (expected, found) = (text(expected), text(found));
    let diff = similar::TextDiff::from_lines(&expected, &found);
    format!("{}\n{}", file.display(), diff.unified_diff().context_radius(2))
}

fn run_case(kind: &ResourceKind, case: &Value) -> Value {
    assess_case(kind, case, record_expectation)
}

/// Evaluates a case and passes the result on.
fn assess_case<T>(
    kind: &ResourceKind,
    case: &Value,
    read: impl FnOnce(&dyn Resource, &Assessment, &AssessmentContext<'_>) -> T,
) -> T {
    let mut secrets = SecretStore::default();
    for (name, value) in case["secrets"].as_object().into_iter().flatten() {
        secrets.insert(name, SecretString::from(value.as_str().unwrap().to_owned()));
    }
    let fields = checked_fields(kind.fields, &case["fields"]);
    let resource =
        (kind.build)(&fields, case["absent"] == true).unwrap_or_else(|d| panic!("{}: {}", case["name"], d.message));
    let context = &case["context"];
    let (inputs, predicted) = (parse_inputs(&context["inputs"]), parse_predicted(&context["predicted"]));
    let cx = AssessmentContext {
        predicted: predicted.as_ref(),
        record: context.get("record"),
        inputs: &inputs,
        declared_elsewhere: parse_claims(&context["elsewhere"]),
        run: RUN,
        key: None,
        secrets: Some(&secrets),
    };
    let seen =
        build_observation(resource.as_ref(), &inputs, context.get("record"), &case["observation"], &case["name"]);
    let judgement = resource.assess(&seen, &cx);
    read(resource.as_ref(), &judgement, &cx)
}

fn record_expectation(resource: &dyn Resource, judgement: &Assessment, cx: &AssessmentContext<'_>) -> Value {
    let mut found = json!({
        "verdict": verdict_text(judgement.verdict),
        "reason": judgement.reason,
        "changes": judgement.changes,
        "disruption": judgement.disruption,
        "basis": judgement.basis,
    });
    if judgement.predicted {
        found["predicted"] = json!(true);
    }
    if judgement.by_reboot {
        found["by_reboot"] = json!(true);
    }
    if let Some(hint) = &judgement.hint {
        found["hint"] = json!(hint);
    }
    if judgement.verdict == StepVerdict::Change {
        match resource.render_action(judgement, cx) {
            Action::Calls(calls) => found["calls"] = calls.iter().map(ClusterCall::describe_call).collect(),
            Action::Script(script) => {
                // Rendered without the store, so that secrets stay placeholders in recorded cases.
                let text = script.body.render(&SecretStore::default()).unwrap();
                found["commands"] = fold_shared_shell(text.expose_secret()).lines().collect();
            }
        }
    }
    found
}

/// Replaces shell code that all actions share by its name.
fn fold_shared_shell(text: &str) -> String {
    let enter = text.replace(safe_path::ENTER_DIRECTORY, "\n# safe_path::ENTER\n");
    let stage = enter.replace(safe_path::STAGE_IN_BOX, "\n# safe_path::STAGE\n");
    stage.replace(safe_path::REQUIRE_FIXED_NAME, "\n# safe_path::FIXED\n")
}

fn verdict_text(verdict: StepVerdict) -> String {
    match verdict {
        StepVerdict::Blocked(class) => format!("blocked: {}", BlockClass::name(class)),
        other => other.name().to_owned(),
    }
}

/// Converts written values into checked fields: modes and durations become numbers, `${secret NAME}` a placeholder.
pub(in crate::resource) fn checked_fields(table: &'static [FieldSpec], written: &Value) -> FieldValues {
    let written = written.as_object().expect("fields");
    let mut fields = FieldValues::default();
    for (key, value) in written {
        let field = table.iter().find(|f| f.name == key).unwrap_or_else(|| panic!("no field `{key}`"));
        fields.0.insert(field.name, check_value(&field.ty, value));
    }
    fields
}

fn check_value(ty: &FieldType, value: &Value) -> Value {
    match (ty, value) {
        (FieldType::Mode, Value::String(text)) => json!(u32::from_str_radix(text, 8).unwrap()),
        (FieldType::Duration | FieldType::Wait, Value::String(text)) => {
            json!(text.strip_suffix('s').unwrap().parse::<u64>().unwrap())
        }
        (FieldType::Map(inner), Value::Object(map)) => {
            map.iter().map(|(k, v)| (k.clone(), check_value(inner, v))).collect::<Map<_, _>>().into()
        }
        (_, Value::String(text)) => json!(insert_placeholders(text)),
        _ => value.clone(),
    }
}

fn insert_placeholders(text: &str) -> String {
    let Some((before, rest)) = text.split_once("${secret ") else { return text.to_owned() };
    let (name, after) = rest.split_once('}').unwrap();
    let mut store = SecretStore::default();
    let placeholder = store.insert(name, SecretString::from("x".to_owned()));
    format!("{before}{}{}", placeholder.0, insert_placeholders(after))
}

fn parse_inputs(given: &Value) -> Vec<RestartInput> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let paths = |v: &Value| v.as_array().unwrap().iter().map(text).collect();
    let input = |v: &Value| RestartInput {
        step: text(&v["step"]),
        paths: paths(&v["paths"]),
        trace: v["trace"].as_str().map(str::to_owned),
        digest: text(&v["digest"]),
        changing: v["changing"] == true,
        is_read_at_start: v["is_read_at_start"] == true,
    };
    given.as_array().into_iter().flatten().map(input).collect()
}

/// Parses what other steps declare: pairs of kind and name.
fn parse_claims(given: &Value) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().expect("kind and name").to_owned();
    let claim = |pair: &Value| (text(&pair[0]), text(&pair[1]));
    given.as_array().into_iter().flatten().map(claim).collect()
}

fn parse_predicted(given: &Value) -> Option<EarlierStepEffects> {
    let given = given.as_object()?;
    let thing = |(kind, name): (&String, &Value)| {
        let name = name.as_str().unwrap().to_owned();
        match kind.as_str() {
            "path" => ProvidedItem::Path(name),
            "unit" => ProvidedItem::Unit(name),
            "user" => ProvidedItem::User(name),
            "group" => ProvidedItem::Group(name),
            "package" => ProvidedItem::Package(name),
            other => panic!("no thing `{other}`"),
        }
    };
    let will_exist = given.get("will_exist").and_then(Value::as_object).into_iter().flatten().map(thing).collect();
    let after = given.get("after").and_then(Value::as_str).map(str::to_owned);
    let paths = given.get("will_go").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let will_go = paths.map(str::to_owned).collect();
    let paths = given.get("will_touch").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let will_touch = paths.map(str::to_owned).collect();
    let takes_more = given.get("takes_more").is_some();
    let is_opaque = given.get("is_opaque").is_some();
    let may_touch_other_files = given.get("may_touch_other_files").is_some();
    let may_bring_files = given.get("may_bring_files").is_some();
    let is_undo = given.get("is_undo").is_some();
    Some(EarlierStepEffects {
        is_undo,
        will_exist,
        will_go,
        will_touch,
        takes_more,
        is_opaque,
        may_touch_other_files,
        may_bring_files,
        after,
        ..EarlierStepEffects::default()
    })
}

/// Answers exactly the probes of the resource, its former probes and its inputs.
pub(in crate::resource) fn build_observation(
    resource: &dyn Resource,
    inputs: &[RestartInput],
    record: Option<&Value>,
    answers: &Value,
    name: &Value,
) -> Observation {
    let mut probes = resource.probes();
    probes.extend(record.into_iter().flat_map(|record| resource.obsolete_probes(record)));
    let bare = |path: &str| Probe::Path { path: path.to_owned(), want: None };
    probes.extend(inputs.iter().flat_map(RestartInput::watched_paths).map(bare));
    let mut seen = Observation::default();
    let mut used = Vec::new();
    for probe in probes {
        let key = probe_key(&probe);
        match answers.get(&key) {
            Some(answer) => seen.insert(probe.clone(), parse_reading(&probe, answer)),
            None if probe == Probe::AptSources => seen.insert(probe, Ok(ProbeReading::AptSources(Vec::new()))),
            None if probe == Probe::DnfSources => {
                seen.insert(probe, Ok(ProbeReading::DnfSources(DnfSources::default())))
            }
            None if probe == Probe::PackageManager => {
                seen.insert(probe, Ok(ProbeReading::PackageManager(PackageManagerState::default())));
            }
            // Nothing is mounted there.
            None if key == "mounts" => {
                seen.insert(probe.clone(), Ok(ProbeReading::Output(crate::probe::ProbeOutput::default())));
            }
            None => panic!("{name}: `{key}` is missing in `observation`"),
        }
        used.push(key);
    }
    for key in answers.as_object().into_iter().flatten().map(|(key, _)| key) {
        assert!(used.contains(key), "{name}: `{key}` is not probed");
    }
    seen
}

fn probe_key(probe: &Probe) -> String {
    match probe {
        Probe::Path { path, .. } => format!("path {path}"),
        Probe::Package { name, .. } => format!("package {name}"),
        Probe::PackageFamily { patterns, .. } => format!("family {}", patterns.join(" ")),
        Probe::PackageManager => "package manager".to_owned(),
        Probe::Unit { name } => format!("unit {name}"),
        Probe::User { name } => format!("user {name}"),
        Probe::Sysctl { key } => format!("sysctl {key}"),
        Probe::Module { name } => format!("module {name}"),
        Probe::Mount { path, .. } => format!("mount {path}"),
        Probe::Cmdline => "cmdline".to_owned(),
        Probe::Initramfs { .. } => "initramfs".to_owned(),
        Probe::AuthorizedKeys { user } => format!("keys {user}"),
        Probe::Group { name, .. } => format!("group {name}"),
        Probe::PackageFile { path } => format!("package file {path}"),
        Probe::AptSources => "apt sources".to_owned(),
        Probe::DnfSources => "dnf sources".to_owned(),
        Probe::Key { path } => format!("key {path}"),
        Probe::Check(check) => check.id.split(' ').next().unwrap_or_default().to_owned(),
        Probe::Object { id, .. } => format!("object {id}"),
        Probe::Contents { namespace } => format!("contents {namespace}"),
        Probe::Objects(asked) => format!("objects {asked}"),
        Probe::Proof { id } => format!("proof {id}"),
        Probe::Release(asked) => format!("release {}/{}", asked.namespace, asked.name),
        other => panic!("{other:?}"),
    }
}

fn parse_reading(probe: &Probe, answer: &Value) -> Result<ProbeReading, UnansweredReason> {
    if let Some(why) = answer.get("unknown") {
        let unknown = UnansweredReason::new(why.as_str().unwrap());
        return Err(match answer.get("said") {
            Some(said) => unknown.with_message(said.as_str().unwrap()),
            None => unknown,
        });
    }
    if let Some(other) = answer.get("reading") {
        return Ok(serde_json::from_value(other.clone()).unwrap());
    }
    let (variant, value) = match probe {
        Probe::Path { want, .. } => ("path", path_answer(answer, want.as_deref())),
        Probe::Package { .. } => ("package", overlay_answer(&PackageState::default(), answer)),
        Probe::PackageFamily { .. } => ("package_family", overlay_answer(&PackageFamilyState::default(), answer)),
        Probe::PackageManager => ("package_manager", overlay_answer(&PackageManagerState::default(), answer)),
        Probe::Unit { .. } => ("unit", overlay_answer(&UnitState::default(), answer)),
        Probe::User { .. } if answer == "absent" => ("user", json!("absent")),
        Probe::User { .. } => ("user", json!({ "present": overlay_answer(&UserInfo::default(), answer) })),
        Probe::Sysctl { .. } => ("sysctl", overlay_answer(&SysctlState::default(), answer)),
        Probe::Module { .. } => ("module", overlay_answer(&ModuleState::default(), answer)),
        Probe::Mount { .. } => ("mount", overlay_answer(&MountState::default(), answer)),
        Probe::Cmdline => ("cmdline", overlay_answer(&CmdlineState::default(), answer)),
        Probe::Initramfs { .. } => ("initramfs", overlay_answer(&InitramfsState::default(), answer)),
        Probe::AuthorizedKeys { .. } if answer == "absent" => ("authorized_keys", json!("no_account")),
        Probe::AuthorizedKeys { .. } => ("authorized_keys", json!({ "account": keys_answer(answer) })),
        Probe::Object { .. } if answer == "unserved" => ("object", json!("unserved")),
        Probe::Object { .. } => ("object", json!({ "known": overlay_answer(&ObjectInfo::default(), answer) })),
        Probe::Contents { .. } => ("contents", overlay_answer(&NamespaceContents::default(), answer)),
        Probe::Objects(_) => ("objects", answer.clone()),
        Probe::Proof { .. } => ("proof", overlay_answer(&ProofState::default(), answer)),
        Probe::Release(_) => ("release", overlay_answer(&ReleaseState::default(), answer)),
        Probe::Group { .. } => ("group", group_answer(answer)),
        Probe::PackageFile { .. } => ("package_file", package_file_answer(answer)),
        Probe::AptSources => ("apt_sources", answer.as_array().unwrap().iter().map(apt_entry_answer).collect()),
        Probe::DnfSources => {
            let entry = |answer| overlay_answer(&DnfEntry::default(), answer);
            let entries: Value = answer["entries"].as_array().unwrap().iter().map(entry).collect();
            ("dnf_sources", json!({ "entries": entries, "folders": answer["folders"] }))
        }
        Probe::Key { .. } if answer == "absent" => ("key", json!("absent")),
        Probe::Key { .. } => ("key", json!({ "present": answer["text"].as_str().unwrap().as_bytes() })),
        _ => ("output", overlay_answer(&crate::probe::ProbeOutput::default(), answer)),
    };
    Ok(serde_json::from_value(json!({ variant: value })).unwrap_or_else(|e| panic!("{answer}: {e}")))
}

/// Parses `absent`, or gid and members; `gid_of` is another group with the wanted gid.
fn group_answer(answer: &Value) -> Value {
    if answer == "absent" {
        return json!({ "group": null, "gid_of": null });
    }
    let mut info = answer.clone();
    let gid_of = info.as_object_mut().unwrap().shift_remove("gid_of").unwrap_or(Value::Null);
    let none = info.as_object().unwrap().is_empty();
    json!({ "group": if none { Value::Null } else { overlay_answer(&GroupInfo::default(), &info) }, "gid_of": gid_of })
}

/// Parses `absent`, `{"bad": WHY}`, or the package's metadata with the installed state as `installed`.
fn package_file_answer(answer: &Value) -> Value {
    if answer == "absent" || answer.get("bad").is_some() {
        return answer.clone();
    }
    let mut info = answer.clone();
    let installed = info.as_object_mut().unwrap().shift_remove("installed").unwrap();
    let mut value = overlay_answer(&PackageFileInfo::default(), &info);
    value["installed"] = overlay_answer(&PackageState::default(), &installed);
    json!({ "present": value })
}

fn apt_entry_answer(answer: &Value) -> Value {
    overlay_answer(&AptEntry::default(), answer)
}

/// Overlays the attributes of a case on the default observation; rejects unknown attributes.
fn overlay_answer<T: Serialize + DeserializeOwned>(base: &T, answer: &Value) -> Value {
    let mut value = serde_json::to_value(base).unwrap();
    let given = answer.as_object().unwrap_or_else(|| panic!("{answer}"));
    for (key, given) in given {
        value[key] = given.clone();
    }
    let read: T = serde_json::from_value(value).unwrap_or_else(|e| panic!("{answer}: {e}"));
    let value = serde_json::to_value(read).unwrap();
    for (key, given) in given {
        assert_eq!(value.get(key), Some(given), "attribute `{key}`");
    }
    value
}

/// Parses a home directory with its authorized keys.
fn keys_answer(answer: &Value) -> Value {
    let second = answer.get("second_file").cloned().unwrap_or(json!("absent"));
    json!({
        "home": answer["home"],
        "home_at": path_answer(&answer["home_at"], None),
        "folder": path_answer(&answer["folder"], None),
        "file": path_answer(&answer["file"], Some("any")),
        "second_file": path_answer(&second, Some("any")),
        "unsearchable": answer["unsearchable"],
    })
}

/// Parses `absent`, or attributes; `text` sets content, size and digest.
fn path_answer(answer: &Value, want: Option<&str>) -> Value {
    if answer == "absent" {
        return json!("absent");
    }
    let mut info = json!({
        "kind": "file", "owner": "root", "group": "root", "mode": 0o644, "size": 0, "mtime": 0.0, "ctime": 0.0,
        "sha256": null, "body": null, "target": null,
    });
    for (key, given) in answer.as_object().unwrap() {
        match (key.as_str(), given) {
            ("mode", Value::String(mode)) => info["mode"] = json!(u32::from_str_radix(mode, 8).unwrap()),
            ("text", Value::String(text)) => {
                let digest = sha256_hex(text.as_bytes());
                info["size"] = json!(text.len());
                info["body"] = json!(want.filter(|want| *want != digest).map(|_| UntrustedText::from(text.as_str())));
                info["sha256"] = json!(digest);
            }
            _ => info[key] = given.clone(),
        }
    }
    json!({ "present": info })
}

/// The registry finds each kind by its name.
#[test]
fn kinds_are_found_by_name() {
    for entry in crate::resource::all_kinds() {
        assert_eq!(find_kind(entry.name).map(|k| k.name), Some(entry.name));
    }
    assert!(find_kind("files").is_none());
}
