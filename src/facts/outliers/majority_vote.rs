//! Determines the majority of one class for every value that should be equal.

use super::report::{FactOutlier, OutlierCandidate, OutlierReport, OutlierValue, UndecidedFact, UnknownHostFact};
use crate::facts::all_facts;
use crate::facts::comparison_rules::{ComparedRows, ComparedValue, ComparisonRule};
use crate::facts::fact::Fact;
use crate::model::{HostName, UntrustedText, Value};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// The value of each host of a class at one path; `None` for a host without that path.
type HostVotes<'a> = Vec<(&'a HostName, Option<ComparedValue>)>;

/// Adds the results of one class.
pub fn compare_class(class: usize, members: &[&OutlierCandidate<'_>], into: &mut OutlierReport) {
    let mut untold = IndexMap::new();
    for (fact, alike) in all_facts().iter().flat_map(|fact| fact.alike.iter().map(move |alike| (fact, alike))) {
        for (path, votes) in collect_votes(fact, alike, members) {
            count_votes(FactBallot { class, fact: fact.name, path, size: members.len() }, &votes, &mut untold, into);
        }
    }
    into.unknown.extend(untold.into_values());
}

/// Returns every path of a part of a fact, with the value of each host.
fn collect_votes<'a>(
    fact: &Fact,
    alike: &ComparisonRule,
    members: &[&OutlierCandidate<'a>],
) -> Vec<(String, HostVotes<'a>)> {
    let rows: Vec<(&HostName, Result<ComparedRows, String>)> =
        members.iter().filter_map(|member| Some((member.host, collect_host_rows(fact, alike, member)?))).collect();
    let known = rows.iter().filter_map(|(_, rows)| rows.as_ref().ok());
    let mut names: BTreeSet<&String> = known.flat_map(BTreeMap::keys).collect();
    let whole = String::new();
    if names.is_empty() && rows.iter().any(|(_, rows)| rows.is_err()) {
        names.insert(&whole);
    }
    let at = |name: &String| match alike.at {
        "" => format!("{}{name}", fact.name),
        at => format!("{}.{at}{name}", fact.name),
    };
    let vote = |rows: &Result<ComparedRows, String>, name: &String| match rows {
        Err(why) => Some(Err(why.clone())),
        Ok(rows) => rows.get(name).cloned().or_else(|| alike.absent_value().map(Ok)),
    };
    names
        .into_iter()
        .map(|name| (at(name), rows.iter().map(|(host, rows)| (*host, vote(rows, name))).collect()))
        .collect()
}

/// Returns a host's values for a part of a fact; `None` if the fact was not observed.
fn collect_host_rows(
    fact: &Fact,
    alike: &ComparisonRule,
    member: &OutlierCandidate<'_>,
) -> Option<Result<ComparedRows, String>> {
    let told = member.facts.0.get(fact.name)?;
    Some(told.as_ref().map_err(|unknown| unknown.why.clone()).and_then(|value| alike.collect_rows(value)))
}

/// One path, and the number of hosts of the class.
struct FactBallot {
    class: usize,
    fact: &'static str,
    path: String,
    size: usize,
}

fn count_votes(
    ballot: FactBallot,
    votes: &HostVotes<'_>,
    untold: &mut IndexMap<(String, String), UnknownHostFact>,
    into: &mut OutlierReport,
) {
    let mut values: IndexMap<String, OutlierValue> = IndexMap::new();
    let mut unknown = BTreeSet::new();
    for (host, told) in votes {
        match told {
            None => {}
            Some(Ok(value)) => {
                let value = to_canonical(value);
                let entry = values.entry(value.to_string()).or_insert(OutlierValue { value, hosts: Vec::new() });
                entry.hosts.push((*host).clone());
            }
            Some(Err(why)) => {
                unknown.insert(*host);
                record_unknown(&ballot, host, why, untold);
            }
        }
    }
    let mut values: Vec<OutlierValue> = values.into_values().collect();
    values.sort_by_key(|value| value.hosts.len());
    let tell = values.iter().map(|value| value.hosts.len()).sum();
    into.compared += usize::from(tell > 0);
    match values.pop() {
        Some(_) if values.is_empty() => {}
        Some(common) if common.hosts.len() * 2 > ballot.size => into.odd.push(FactOutlier {
            class: ballot.class,
            fact: ballot.fact.to_owned(),
            path: UntrustedText::new(ballot.path),
            common: common.value,
            hosts: common.hosts.len(),
            odd: values,
            unknown: unknown.len(),
        }),
        Some(_) => into.undecided.push(UndecidedFact {
            class: ballot.class,
            path: UntrustedText::new(ballot.path),
            values: values.len() + 1,
            hosts: tell,
        }),
        None => {}
    }
}

/// Records that a host's value is unknown, once per fact and reason.
fn record_unknown(
    ballot: &FactBallot,
    host: &HostName,
    why: &str,
    untold: &mut IndexMap<(String, String), UnknownHostFact>,
) {
    let class = Some(ballot.class);
    let entry = untold.entry((ballot.fact.to_owned(), why.to_owned()));
    let entry =
        entry.or_insert(UnknownHostFact { class, path: ballot.fact.into(), why: why.into(), hosts: Vec::new() });
    if !entry.hosts.contains(host) {
        entry.hosts.push(host.clone());
    }
}

/// Returns a value with the keys of its maps sorted: their order on a host has no meaning.
fn to_canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, Value> = map.iter().map(|(key, value)| (key, to_canonical(value))).collect();
            sorted.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        Value::Array(list) => list.iter().map(to_canonical).collect(),
        other => other.clone(),
    }
}
