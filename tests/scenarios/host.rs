//! A host made of answers. Without an answer, the state is absent (`absent`, not installed, exit status 1), and facts
//! are unknown.

use forge::config::Project;
use forge::facts::{FactMap, Facts};
use forge::model::{HostName, UntrustedText};
use forge::object::{
    ChartInfo, ChartQuerySource, NamespaceContents, ObjectDryRun, ObjectId, ObjectInfo, ObjectState, ReleaseInfo,
    ReleaseQuery, ReleaseState, ReleaseStatus,
};
use forge::plan::{self, HostContext, ObservedHost, PlanContext, UnreachableReason};
use forge::probe::{
    CmdlineState, InitramfsState, ModuleState, MountState, ObjectsQuery, Observation, PackageFamilyState,
    PackageManagerState, PackageState, Probe, ProbeOutput, ProbeReading, RecordsState, ScriptAccount, SysctlState,
    UnansweredReason, UnitState, UserInfo,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Returns the first observation of each host, before any probe: its facts and records.
pub fn first_look(project: &Project, answers: &Value) -> Vec<ObservedHost> {
    let own = answers["hosts"].as_object().expect("`hosts` is a map");
    for name in own.keys() {
        assert!(project.hosts.contains_key(&HostName::new(name)), "no host `{name}`");
    }
    let hosts = project.hosts.keys().filter_map(|host| Some((host, own.get(host.as_str())?)));
    hosts
        .map(|(host, own)| match own {
            Value::String(_) => {
                let why = UnreachableReason::new("connection refused", Some("is sshd running".into()));
                ObservedHost::from_unreachable(host, why)
            }
            _ => {
                let all = merged(&answers["all"], own);
                let mut observation = Observation::default();
                observation.insert(Probe::Records, Ok(ProbeReading::Records(Box::new(records(&all)))));
                observation.insert(Probe::Account, Ok(ProbeReading::Account(account(&all))));
                let mut seen = ObservedHost::from_observation(host, observation, 1);
                seen.facts = facts(&all);
                seen
            }
        })
        .collect()
}

/// Answers every probe that can be requested now.
pub fn look(ground: PlanContext<'_>, seen: &mut ObservedHost, answers: &Value) {
    if !seen.is_observed() {
        return;
    }
    let all = merged(&answers["all"], &answers["hosts"][seen.host.as_str()]);
    let name = seen.host.clone();
    let probes =
        plan::collect_probes(&HostContext::new(ground, &name, seen).expect("a host of the project"), &BTreeSet::new());
    let mut observation = Observation::default();
    // Facts were given with the host.
    let given = |probe: &Probe| {
        matches!(probe, Probe::Records | Probe::Account | Probe::Fact { .. } | Probe::ClusterFact { .. })
    };
    for probe in probes.into_iter().filter(|probe| !given(probe)) {
        let answer = answer(&probe, &all);
        observation.insert(probe, answer);
    }
    seen.merge_observation(observation);
}

fn merged(all: &Value, own: &Value) -> Map<String, Value> {
    let mut merged = all.as_object().cloned().unwrap_or_default();
    merged.extend(own.as_object().cloned().unwrap_or_default());
    merged
}

fn facts(answers: &Map<String, Value>) -> Facts {
    let mut facts: FactMap =
        forge::facts::fact_names().map(|name| (name, Err(UnansweredReason::new("was not observed")))).collect();
    for (name, value) in answers.iter().filter_map(|(key, value)| Some((key.strip_prefix("fact ")?, value))) {
        let value = unknown(value).map_or_else(|| Ok(value.clone()), Err);
        assert!(facts.get(name).is_some(), "no fact `{name}`");
        facts.insert(name, value);
    }
    Facts(facts)
}

fn account(answers: &Map<String, Value>) -> ScriptAccount {
    answers.get("account").and_then(Value::as_str).map_or(ScriptAccount::Root, |name| ScriptAccount::Other(name.into()))
}

fn records(answers: &Map<String, Value>) -> RecordsState {
    let records = answers.iter().filter_map(|(key, value)| {
        let step = key.strip_prefix("record ")?;
        let mut record = value.clone();
        record["step"] = json!(step);
        Some((format!("{step}.json"), UntrustedText::from(record.to_string())))
    });
    RecordsState {
        records: records.collect(),
        key: Some("00".to_owned()),
        running: Vec::new(),
        window: None,
        hold: None,
        writer: None,
        guards: answers.get("guard").map(|guard| serde_json::from_value(guard.clone()).unwrap()).into_iter().collect(),
    }
}

fn unknown(answer: &Value) -> Option<UnansweredReason> {
    Some(UnansweredReason::new(answer.get("unknown")?.as_str()?))
}

fn answer(probe: &Probe, answers: &Map<String, Value>) -> Result<ProbeReading, UnansweredReason> {
    let (key, nothing) = match probe {
        Probe::Path { path, .. } => (format!("path {path}"), json!("absent")),
        Probe::Package { name, .. } if has_dnf(answers) => (
            format!("package {name}"),
            json!({ "manager": "rpm", "status": "not-installed", "offers_unknown": "dnf was not asked" }),
        ),
        Probe::Package { name, .. } => {
            (format!("package {name}"), json!({ "status": "not-installed", "candidate": "1.0", "available": ["1.0"] }))
        }
        Probe::PackageFamily { patterns, .. } => {
            (format!("family {}", patterns.first().cloned().unwrap_or_default()), json!({}))
        }
        Probe::PackageManager if has_dnf(answers) => ("package manager".to_owned(), json!({ "kind": "rpm" })),
        Probe::PackageManager => ("package manager".to_owned(), json!({})),
        Probe::Unit { name } => (format!("unit {name}"), json!({ "load": "not-found", "active": "inactive" })),
        Probe::User { name } => (format!("user {name}"), json!("absent")),
        Probe::Sysctl { key } => (format!("sysctl {key}"), json!({})),
        Probe::Module { name } => (format!("module {name}"), json!({ "loadable": true, "available": true })),
        Probe::Mount { path, .. } => (format!("mount {path}"), json!({})),
        Probe::Cmdline => ("cmdline".to_owned(), cmdline()),
        Probe::Initramfs { files, modules, .. } => ("initramfs".to_owned(), images(files, modules)),
        Probe::AuthorizedKeys { user } => (format!("keys {user}"), json!("no_account")),
        Probe::Group { name, .. } => (format!("group {name}"), json!({ "group": null, "gid_of": null })),
        Probe::PackageFile { path } => (format!("package file {path}"), json!("absent")),
        Probe::AptSources => ("apt sources".to_owned(), json!([])),
        Probe::DnfSources => ("dnf sources".to_owned(), json!({ "entries": [] })),
        Probe::Key { path } => (format!("key {path}"), json!({ "present": b"-----BEGIN PGP ".as_slice() })),
        Probe::Check(check) if large(&check.env).is_some() => return Ok(content(large(&check.env).unwrap(), answers)),
        Probe::Check(check) if check.id.starts_with("nftables ") => (check.id.clone(), nft_listing(probe, false)),
        // No account has the uid.
        Probe::Check(check) if check.id.starts_with("uid ") => (check.id.clone(), json!({ "status": 2 })),
        // Nothing is mounted in a path.
        Probe::Check(check) if check.id.starts_with("mounts ") => (check.id.clone(), json!({ "status": 0 })),
        // Every shell can be executed.
        Probe::Check(check) if check.id.starts_with("shell ") => (check.id.clone(), json!({ "status": 0 })),
        Probe::Check(check) => (format!("sh {}", check.script), json!({ "status": 1 })),
        Probe::Object { id, want } => return Ok(object(id, want.as_deref(), answers)),
        Probe::Contents { .. } => return Ok(ProbeReading::Contents(NamespaceContents::default())),
        Probe::Proof { id } => (format!("proof {id}"), json!({})),
        Probe::Objects(asked) => return Ok(live(asked, answers)),
        Probe::Release(asked) => return Ok(release(asked, answers)),
        Probe::Evidence { .. } => return Err(UnansweredReason::new("scenarios have no logs")),
        Probe::Records | Probe::Account | Probe::Fact { .. } | Probe::ClusterFact { .. } => {
            panic!("{probe:?} is answered by `first_look`")
        }
    };
    let settled = answers.contains_key("settled").then(|| settled(probe)).flatten();
    let given = answers.get(&key).or(settled.as_ref()).unwrap_or(&nothing);
    match unknown(given) {
        Some(unknown) => Err(unknown),
        None => Ok(reading(probe, given)),
    }
}

/// Returns an object of a cluster: absent without an answer, as wanted for `declared`, not served for `unserved`,
/// otherwise with the attributes of the answer. Namespaces without an answer exist.
fn object(id: &ObjectId, want: Option<&str>, answers: &Map<String, Value>) -> ProbeReading {
    let wanted: Option<Value> = want.map(|text| serde_json::from_str(text).expect("JSON"));
    let dry = wanted.clone().map(ObjectDryRun::Becomes);
    let info = match answers.get(&format!("object {id}")) {
        None if answers.contains_key("settled") => ObjectInfo { live: wanted, dry, ..ObjectInfo::default() },
        None => ObjectInfo { dry, ..ObjectInfo::default() },
        Some(said) if said == "unserved" => return ProbeReading::Object(ObjectState::Unserved),
        Some(said) if said == "declared" => ObjectInfo { live: wanted, dry, ..ObjectInfo::default() },
        Some(said) => {
            let mut whole = serde_json::to_value(ObjectInfo::default()).expect("JSON");
            whole.as_object_mut().expect("a map").extend(said.as_object().expect("an object").clone());
            let mut info: ObjectInfo = serde_json::from_value(whole).expect("an object");
            info.dry = info.dry.or(dry);
            info
        }
    };
    ProbeReading::Object(ObjectState::Known(Box::new(info)))
}

/// Returns objects as verification reads them: none without an answer, `unserved`, one, or a list.
fn live(asked: &ObjectsQuery, answers: &Map<String, Value>) -> ProbeReading {
    ProbeReading::Objects(match answers.get(&format!("live {asked}")) {
        None => Some(Vec::new()),
        Some(said) if said == "absent" => Some(Vec::new()),
        Some(said) if said == "unserved" => None,
        Some(Value::Array(list)) => Some(list.clone()),
        Some(one) => Some(vec![one.clone()]),
    })
}

/// Returns a Helm release: none without an answer, as declared on a settled host, otherwise with the attributes of the
/// answer.
fn release(asked: &ReleaseQuery, answers: &Map<String, Value>) -> ProbeReading {
    let chart = asked.chart.as_ref().map(|chart| {
        let name = match &chart.from {
            ChartQuerySource::Repository { name, .. } | ChartQuerySource::BuiltIn(name) => name.as_str(),
            ChartQuerySource::Oci(place) | ChartQuerySource::Path(place) => {
                place.rsplit('/').next().unwrap_or_default()
            }
        };
        ChartInfo { name: name.to_owned(), version: chart.version.clone(), ..ChartInfo::default() }
    });
    let there = answers.contains_key("settled").then_some(chart.as_ref()).flatten().map(|chart| ReleaseInfo {
        revision: 1,
        status: ReleaseStatus::Deployed,
        chart: chart.name.clone(),
        version: chart.version.clone(),
        ours: true,
        ..ReleaseInfo::default()
    });
    let state = ReleaseState { release: there, chart, ..ReleaseState::default() };
    let said = answers.get(&format!("release {}/{}", asked.namespace, asked.name));
    let whole = said.map_or_else(|| serde_json::to_value(&state).expect("JSON"), |said| over(&state, said));
    ProbeReading::Release(Box::new(serde_json::from_value(whole).expect("a release")))
}

/// Reports whether the host's package manager is dnf.
pub fn has_dnf(answers: &Map<String, Value>) -> bool {
    answers.get("fact packages").is_some_and(|packages| packages["manager"] == "dnf")
}

/// Returns the command line and the boot menu of a freshly installed host.
fn cmdline() -> Value {
    let entry = json!({ "title": "Linux", "args": "ro quiet", "rescue": false });
    json!({ "loaded": "ro quiet", "loader": { "update_grub": { "lines": [], "entries": [entry] } } })
}

/// Returns the initramfs image of a freshly installed host: it contains none of the requested files and modules.
fn images(files: &[String], modules: &[String]) -> Value {
    let none: Map<String, Value> = files.iter().map(|path| (path.clone(), Value::Null)).collect();
    let modules: Map<String, Value> =
        modules.iter().map(|name| (name.clone(), json!({ "builtin": false, "host": null, "inside": null }))).collect();
    let kernel = "5.15.0-130-generic";
    let image = json!({
        "kernel": kernel, "path": format!("/boot/initrd.img-{kernel}"), "made": 500.0, "trouble": "",
        "files": none, "modules": modules,
    });
    json!({ "maker": "initramfs-tools", "running": kernel, "booted": 1000.0, "images": [image], "files": none })
}

/// Returns the path of a probe of a large file.
fn large(env: &[(String, String)]) -> Option<&str> {
    env.iter().find(|(name, _)| name == "FORGE_PATH").map(|(_, path)| path.as_str())
}

/// Answers the probe of a large file from the answer for its path: absent, or a file with that digest.
fn content(path: &str, answers: &Map<String, Value>) -> ProbeReading {
    let file = answers.get(&format!("path {path}")).filter(|file| **file != "absent");
    let said = match file.map(|file| file["sha256"].as_str().unwrap_or("00")) {
        Some(digest) => format!("found regular file|root|root|644|9|7|1.0|1.0|0|0\nsha256 {digest}\n"),
        None => "absent\n".to_owned(),
    };
    ProbeReading::Output(ProbeOutput { stdout: said.into(), ..ProbeOutput::default() })
}

/// Returns the answer of a settled host without an answer of its own: checks succeed.
fn settled(probe: &Probe) -> Option<Value> {
    match probe {
        Probe::Check(check) if check.id.starts_with("nftables ") => Some(nft_listing(probe, true)),
        Probe::Check(check) if check.id.starts_with("links ") => Some(json!({ "status": 0, "stdout": "1\n" })),
        Probe::Check(check) if check.id.starts_with("uid ") => None,
        Probe::Check(_) => Some(json!({ "status": 0 })),
        _ => None,
    }
}

/// Returns the output of `nft` for the declared table, and for the table in the kernel if it is loaded: both as
/// declared.
fn nft_listing(probe: &Probe, is_loaded: bool) -> Value {
    let Probe::Check(check) = probe else { unreachable!("a check of `nftables`") };
    let text = check.env.iter().find(|(name, _)| name == "nft_text").map(|(_, text)| text.as_str()).unwrap_or_default();
    json!({ "status": 0, "stdout": format!("{text}\u{1e}\n{}", if is_loaded { text } else { "" }) })
}

fn reading(probe: &Probe, given: &Value) -> ProbeReading {
    let value = match probe {
        Probe::Path { want, .. } => json!({ "path": path(given, want.as_deref()) }),
        Probe::Package { .. } => json!({ "package": over(&PackageState::default(), given) }),
        Probe::PackageFamily { .. } => json!({ "package_family": over(&PackageFamilyState::default(), given) }),
        Probe::PackageManager => json!({ "package_manager": over(&PackageManagerState::default(), given) }),
        Probe::Unit { .. } => json!({ "unit": over(&UnitState::default(), given) }),
        Probe::User { .. } if given == "absent" => json!({ "user": "absent" }),
        Probe::User { .. } => json!({ "user": { "present": over(&UserInfo::default(), given) } }),
        Probe::Sysctl { .. } => json!({ "sysctl": over(&SysctlState::default(), given) }),
        Probe::Module { .. } => json!({ "module": over(&ModuleState::default(), given) }),
        Probe::Mount { .. } => json!({ "mount": over(&MountState::default(), given) }),
        Probe::Cmdline => json!({ "cmdline": over(&CmdlineState::default(), given) }),
        Probe::Initramfs { .. } => json!({ "initramfs": over(&InitramfsState::default(), given) }),
        Probe::AuthorizedKeys { .. } => json!({ "authorized_keys": given }),
        Probe::Group { .. } => json!({ "group": given }),
        Probe::PackageFile { .. } => json!({ "package_file": given }),
        Probe::AptSources => json!({ "apt_sources": given }),
        Probe::DnfSources => json!({ "dnf_sources": given }),
        Probe::Key { .. } => json!({ "key": given }),
        Probe::Proof { .. } => json!({ "proof": given }),
        _ => json!({ "output": over(&ProbeOutput::default(), given) }),
    };
    serde_json::from_value(value).unwrap_or_else(|e| panic!("{given}: {e}"))
}

/// Merges the attributes of a case over the defaults of a host. Panics on a misspelled attribute.
fn over<T: Serialize + DeserializeOwned>(base: &T, given: &Value) -> Value {
    let mut value = serde_json::to_value(base).unwrap();
    for (key, given) in given.as_object().unwrap_or_else(|| panic!("{given}")) {
        // Missing in the JSON if they have the value that they have with dpkg.
        let rare = ["offers_unknown", "manager", "cannot_hold", "other_lock", "kind"].contains(&key.as_str());
        assert!(value.get(key).is_some() || rare, "attribute `{key}`");
        value[key] = given.clone();
    }
    value
}

/// Returns `absent`, or attributes merged over those of a regular file; `text` sets the body and its digest.
fn path(given: &Value, want: Option<&str>) -> Value {
    if given == "absent" {
        return json!("absent");
    }
    let mut info = json!({
        "kind": "file", "owner": "root", "group": "root", "mode": 0o644, "size": 0, "mtime": 0.0, "ctime": 0.0,
        "sha256": null, "body": null, "target": null,
    });
    for (key, value) in given.as_object().unwrap_or_else(|| panic!("{given}")) {
        match (key.as_str(), value) {
            ("mode", Value::String(mode)) => info["mode"] = json!(u32::from_str_radix(mode, 8).unwrap()),
            ("text", Value::String(text)) => {
                let digest = sha256(text);
                info["body"] = json!(want.filter(|want| *want != digest).map(|_| text));
                info["sha256"] = json!(digest);
            }
            ("as_wanted", _) => info["sha256"] = json!(want),
            _ => info[key] = value.clone(),
        }
    }
    json!({ "present": info })
}

pub fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
