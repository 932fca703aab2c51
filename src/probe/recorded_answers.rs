//! Answers from a recording, also to probes that differ slightly from the recorded ones.

use super::query::{AptOfferPolicy, FactSnippet, Probe};
use super::{
    Observation, PackageState, PathInfo, PathState, ProbeReading, UnansweredReason, section_sorting, upstream_version,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Returns the answers of `recorded` to `probes`. Missing answers are unknown.
pub fn recall_answers(recorded: &Observation, probes: &BTreeSet<Probe>, facts: &[FactSnippet]) -> Observation {
    let mut seen = Observation::default();
    for probe in probes {
        let refused = match probe.is_api_probe() {
            true => None,
            false => section_sorting::refusal_reason(probe, facts),
        };
        let answer = match refused {
            Some(why) => Err(why),
            None if seen.copy_answer(probe, recorded) => continue,
            None => match find_similar_answer(recorded, probe) {
                Err(why) if why == not_recorded_reason() => find_similar_answer(recorded, &with_script_digest(probe)),
                answer => answer,
            },
        };
        seen.insert(probe.clone(), answer);
    }
    seen
}

/// Returns the probe with its command replaced by a digest, for files that must not contain commands.
pub fn with_script_digest(probe: &Probe) -> Probe {
    let mut probe = probe.clone();
    if let Probe::Check(check) = &mut probe
        && !check.script.starts_with(SCRIPT_DIGEST_PREFIX)
    {
        let mut told = SCRIPT_DIGEST_PREFIX.to_owned();
        crate::model::push_hex(&mut told, &Sha256::digest(check.script.as_bytes()));
        check.script = told;
    }
    probe
}

const SCRIPT_DIGEST_PREFIX: &str = "sha256:";

impl Observation {
    /// Reports whether a recording did not have the answer to a probe.
    pub fn lacks_recorded_answers(&self) -> bool {
        self.iter().any(|(_, answer)| answer.as_ref().is_err_and(|why| why.unrecorded))
    }
}

fn not_recorded_reason() -> UnansweredReason {
    UnansweredReason { unrecorded: true, ..UnansweredReason::new("not recorded") }
}

/// Finds the answer for the same path or package with another wanted state, or for the same check with another limit: a
/// recipe may have changed since.
fn find_similar_answer(recorded: &Observation, probe: &Probe) -> Result<ProbeReading, UnansweredReason> {
    let mut found = recorded.iter().filter(|(other, _)| match (probe, other) {
        (Probe::Path { path, .. }, Probe::Path { path: other, .. }) => path == other,
        (Probe::Package { name, .. }, Probe::Package { name: other, .. }) => name == other,
        (Probe::Object { id, want: None }, Probe::Object { id: other, .. }) => id.to_claim() == other.to_claim(),
        (Probe::Check(_), Probe::Check(_)) => without_limit(probe) == without_limit(other),
        _ => false,
    });
    let first = found.next().ok_or_else(not_recorded_reason)?;
    // Several steps may have requested a path, some without its body.
    let told = std::iter::once(first).chain(found).find(|(_, answer)| has_body(answer)).unwrap_or(first);
    match (probe, told.1) {
        (_, Err(why)) => Err(why.clone()),
        (Probe::Check(_) | Probe::Object { .. }, Ok(reading)) => Ok(reading.clone()),
        (Probe::Path { want, .. }, Ok(ProbeReading::Path(state))) => {
            Ok(ProbeReading::Path(adapt_path_state(state.clone(), want.as_deref())))
        }
        (Probe::Package { offers, .. }, Ok(ProbeReading::Package(state))) => {
            Ok(ProbeReading::Package(Box::new(adapt_package_state(PackageState::clone(state), offers))))
        }
        _ => Err(not_recorded_reason()),
    }
}

fn has_body(answer: &Result<ProbeReading, UnansweredReason>) -> bool {
    matches!(answer, Ok(ProbeReading::Path(PathState::Present(info))) if info.body.is_some())
}

fn without_limit(probe: &Probe) -> Probe {
    let mut probe = probe.clone();
    if let Probe::Check(check) = &mut probe {
        check.timeout_s = None;
    }
    probe
}

/// A body is sent only if a different one is wanted.
fn adapt_path_state(state: PathState, want: Option<&str>) -> PathState {
    match state {
        PathState::Present(info) => {
            let body = info.body.clone().filter(|_| want.is_some() && want != info.sha256.as_deref());
            PathState::Present(Box::new(PathInfo { body, ..*info }))
        }
        PathState::Absent => PathState::Absent,
    }
}

/// Offers that were not queried then may be needed now.
fn adapt_package_state(state: PackageState, offers: &AptOfferPolicy) -> PackageState {
    let installed = state.status == "installed";
    let needed = match offers {
        AptOfferPolicy::Unneeded => false,
        AptOfferPolicy::UnlessInstalled => !installed,
        AptOfferPolicy::UnlessVersion(version) => !(installed && state.version.as_ref() == Some(version)),
        AptOfferPolicy::UnlessUpstream(upstream) => {
            !(installed && state.version.as_deref().map(upstream_version) == Some(upstream))
        }
    };
    match needed && state.offers_unknown.is_some() {
        true => PackageState { offers_unknown: Some(not_recorded_reason().why), ..state },
        false => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UntrustedText;
    use crate::probe::CheckProbe;

    fn of(recorded: &Observation, probe: Probe) -> Result<ProbeReading, String> {
        let seen = recall_answers(recorded, &[probe.clone()].into(), &[]);
        seen.get(&probe).cloned().map_err(|unknown| unknown.why)
    }

    fn info(body: Option<&str>) -> PathInfo {
        PathInfo {
            kind: crate::probe::PathType::File,
            owner: "root".into(),
            group: "root".into(),
            mode: 0o644,
            size: 1,
            mtime: 0.0,
            ctime: 0.0,
            sha256: Some("old".into()),
            body: body.map(UntrustedText::from),
            target: None,
            dangling: false,
        }
    }

    #[test]
    fn unrecorded_probe_returns_not_recorded() {
        let recorded = Observation::default();
        assert_eq!(of(&recorded, Probe::Path { path: "/x".into(), want: None }).unwrap_err(), "not recorded");
        assert_eq!(of(&recorded, Probe::Fact { name: "os".into() }).unwrap_err(), "is not a fact that forge knows");
        assert_eq!(of(&recorded, Probe::User { name: "-x".into() }).unwrap_err(), "is not a user name");
    }

    #[test]
    fn path_answer_is_reused_for_another_wanted_digest() {
        let mut recorded = Observation::default();
        let asked = Probe::Path { path: "/x".into(), want: Some("new".into()) };
        recorded.insert(asked, Ok(ProbeReading::Path(PathState::Present(Box::new(info(Some("body")))))));
        // Another step requested it without a wanted state.
        let bare = Probe::Path { path: "/x".into(), want: None };
        recorded.insert(bare, Ok(ProbeReading::Path(PathState::Present(Box::new(info(None))))));
        let of = |want: Option<&str>| match of(
            &recorded,
            Probe::Path { path: "/x".into(), want: want.map(str::to_owned) },
        ) {
            Ok(ProbeReading::Path(PathState::Present(info))) => info.body.map(|body| body.raw().to_owned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(Some("newer")).as_deref(), Some("body"));
        assert_eq!(of(Some("old")), None);
        assert_eq!(of(None), None);
    }

    fn build_check(script: &str, timeout_s: Option<u64>) -> Probe {
        let (id, script, env) = ("a/b".into(), script.into(), Vec::new());
        Probe::Check(Box::new(CheckProbe { id, script, user: None, cwd: None, env, timeout_s }))
    }

    #[test]
    fn check_answer_is_reused_for_another_timeout() {
        let mut recorded = Observation::default();
        let output = || ProbeReading::Output(crate::probe::ProbeOutput { status: 3, ..Default::default() });
        recorded.insert(build_check("true", Some(60)), Ok(output()));
        assert_eq!(of(&recorded, build_check("true", None)), Ok(output()));
        assert_eq!(of(&recorded, build_check("false", None)).unwrap_err(), "not recorded");
    }

    #[test]
    fn check_is_found_by_its_script_digest() {
        let check = |script: &str| build_check(script, None);
        let mut recorded = Observation::default();
        let told = with_script_digest(&check("true"));
        assert_eq!(with_script_digest(&told), told);
        recorded.insert(told, Ok(ProbeReading::Output(Default::default())));
        assert!(of(&recorded, check("true")).is_ok());
        assert_eq!(of(&recorded, check("false")).unwrap_err(), "not recorded");
    }

    #[test]
    fn offers_skipped_at_recording_time_are_not_recorded() {
        let mut recorded = Observation::default();
        let state = PackageState {
            version: Some("1.0".into()),
            status: "installed".into(),
            offers_unknown: Some("apt was not asked".into()),
            ..PackageState::default()
        };
        let name = || "x".to_owned();
        recorded.insert(
            Probe::Package { name: name(), offers: AptOfferPolicy::UnlessInstalled },
            Ok(ProbeReading::Package(Box::new(state))),
        );
        let of = |offers| match of(&recorded, Probe::Package { name: name(), offers }) {
            Ok(ProbeReading::Package(state)) => state.offers_unknown.unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(AptOfferPolicy::UnlessVersion("1.0".into())), "apt was not asked");
        assert_eq!(of(AptOfferPolicy::UnlessVersion("2.0".into())), "not recorded");
    }
}
