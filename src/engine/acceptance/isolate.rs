//! Finds the part that makes measurements fail, with more measurements where the scheduled ones do not suffice.

use super::report::{FabricFault, MeasuredScope, TestReport, TestRow};
use super::test_round::{PeerLimit, TestRun, apply_peer_limit};
use crate::acceptance::{
    FabricPart, FaultIsolation, FinishedRun, GroupRun, MemberPair, PlacedFabric, RailFlow, RunSpeed, TestVerdict,
};
use crate::model::HostName;

/// How many measurements are made in addition to the scheduled ones.
const MORE_RUNS: usize = 20;

/// Isolates the faults that failed measurements show. Both directions of a pair are one measurement.
pub(super) async fn isolate_faults(
    run: &TestRun<'_>,
    rails: &[Option<String>],
    limits: &[Option<PeerLimit>],
    report: &mut TestReport,
) {
    let failed = report.rows.iter().any(|row| matches!(row.verdict, TestVerdict::Fail { .. }));
    let names: Vec<HostName> = run.hosts.iter().map(|host| host.name.clone()).collect();
    let placed = run.context.project.fabric.build_model(&names, rails);
    let placed = placed.map_or_else(|| PlacedFabric::without_topology(names.len(), rails.len()), Ok);
    let (true, Ok(fabric)) = (failed, placed) else { return };
    let mut search = FaultIsolation::from_runs(&fabric.model, scheduled_runs(report, &names, rails), MORE_RUNS);
    while let Some(next) = search.next_run() {
        if run.is_stopped() {
            return;
        }
        let first = report.rows.len();
        measure_run(run, &next, rails, limits, report).await;
        let speed = speed_of(&report.rows[first..]);
        search.record_run(next, speed);
    }
    let found = search.finish();
    let name_part = |part: FabricPart| describe_part(&fabric, part, &names, rails);
    for named in &found.named {
        let evidence = named.slow_runs.iter().map(|at| describe_run(&found.runs[*at], &names, rails)).collect();
        let host = host_of(named.part).map(|host| names[host].clone());
        report.faults.push(FabricFault { part: name_part(named.part), host, evidence });
    }
    report.suspects = found.suspects.iter().map(|part| name_part(*part)).collect();
}

/// Measures a run: its pairs, or all of its hosts as one group.
async fn measure_run(
    run: &TestRun<'_>,
    next: &GroupRun,
    rails: &[Option<String>],
    limits: &[Option<PeerLimit>],
    report: &mut TestReport,
) {
    let round = |report: &TestReport| report.rows.last().map_or(1, |row| row.round + 1);
    let first = report.rows.len();
    if report.scope == MeasuredScope::Group {
        run.run_groups(&[next.hosts()], (round(report), true), report).await;
        report.rows[first..].iter_mut().for_each(|row| apply_limit(row, limits.first().and_then(Option::as_ref)));
        return;
    }
    for (rail, pairs) in split_in_rounds(next) {
        let from = report.rows.len();
        run.run_round(&pairs, rails[rail].as_deref(), (round(report), true), report).await;
        report.rows[from..].iter_mut().for_each(|row| apply_limit(row, limits[rail].as_ref()));
    }
}

fn apply_limit(row: &mut TestRow, limit: Option<&PeerLimit>) {
    if let Some(limit) = limit {
        apply_peer_limit(row, limit.as_ref());
    }
}

fn scheduled_runs(report: &TestReport, names: &[HostName], rails: &[Option<String>]) -> Vec<FinishedRun> {
    let place = |host: &HostName| names.iter().position(|name| name == host);
    report
        .rows
        .chunk_by(|one, other| one.round == other.round && one.hosts.iter().rev().eq(other.hosts.iter()))
        .filter_map(|rows| {
            let rail = rails.iter().position(|rail| *rail == rows[0].rail)?;
            let hosts = rows[0].hosts.iter().map(place).collect::<Option<Vec<usize>>>()?;
            let run = match (report.scope, hosts.as_slice()) {
                (MeasuredScope::Pair, [from, to]) => GroupRun::single(RailFlow { from: *from, to: *to, rail }),
                (MeasuredScope::Group, group) => GroupRun::ring(group, &[rail]),
                _ => return None,
            };
            Some(FinishedRun { run, speed: speed_of(rows) })
        })
        .collect()
}

/// Returns the slowest result: failed if one failed, and without a value if one has none.
fn speed_of(rows: &[TestRow]) -> RunSpeed {
    let value = rows.iter().filter_map(|row| row.verdict.value()).fold(f64::INFINITY, f64::min);
    let any = |wanted: fn(&TestVerdict) -> bool| rows.iter().any(|row| wanted(&row.verdict));
    if any(|verdict| matches!(verdict, TestVerdict::Fail { .. })) {
        RunSpeed::Slow(value)
    } else if rows.is_empty() || any(|verdict| matches!(verdict, TestVerdict::NotMeasured { .. })) {
        RunSpeed::NotMeasured
    } else {
        RunSpeed::Fast(value)
    }
}

/// Divides the flows of a run so that no host is in two pairs at a time.
fn split_in_rounds(run: &GroupRun) -> Vec<(usize, Vec<MemberPair>)> {
    let mut rounds: Vec<(usize, Vec<MemberPair>)> = Vec::new();
    for flow in &run.flows {
        let pair = (flow.from.min(flow.to), flow.from.max(flow.to));
        let is_free = |pairs: &[MemberPair]| {
            pairs.iter().all(|(one, other)| ![pair.0, pair.1].iter().any(|host| host == one || host == other))
        };
        if rounds.iter().any(|(rail, pairs)| *rail == flow.rail && pairs.contains(&pair)) {
            continue;
        }
        match rounds.iter_mut().find(|(rail, pairs)| *rail == flow.rail && is_free(pairs)) {
            Some((_, pairs)) => pairs.push(pair),
            None => rounds.push((flow.rail, vec![pair])),
        }
    }
    rounds
}

fn host_of(part: FabricPart) -> Option<usize> {
    match part {
        FabricPart::Host(host) | FabricPart::Adapter(host, _) | FabricPart::HostCable(host, _) => Some(host),
        FabricPart::Leaf(_) | FabricPart::Spine(_) | FabricPart::SwitchCable(..) | FabricPart::Rail(_) => None,
    }
}

fn describe_part(fabric: &PlacedFabric, part: FabricPart, names: &[HostName], rails: &[Option<String>]) -> String {
    let host = |at: usize| names[at].as_str();
    let rail = |at: usize| rails[at].as_deref().unwrap_or("the network");
    let leaf = |at: usize| fabric.leaves.get(at).map_or("", String::as_str);
    match part {
        FabricPart::Host(at) if fabric.model.rail_count() == 1 => {
            format!("host `{}`, its adapter or its cable", host(at))
        }
        FabricPart::Host(at) => format!("host `{}`", host(at)),
        FabricPart::Adapter(at, of) | FabricPart::HostCable(at, of) => {
            format!("adapter `{}` of `{}`, or its cable", rail(of), host(at))
        }
        FabricPart::Rail(at) => describe_rail(fabric, at, rails),
        FabricPart::Leaf(at) => format!("leaf `{}`", leaf(at)),
        FabricPart::Spine(at) => match fabric.spines.get(at) {
            Some(spine) => format!("spine `{spine}`"),
            None => "the switches between the leaves".to_owned(),
        },
        FabricPart::SwitchCable(at, spine) => match fabric.spines.get(spine) {
            Some(spine) => format!("the cable between leaf `{}` and spine `{spine}`", leaf(at)),
            None => format!("the cables between leaf `{}` and the other switches", leaf(at)),
        },
    }
}

/// A rail with one leaf is that leaf.
fn describe_rail(fabric: &PlacedFabric, rail: usize, rails: &[Option<String>]) -> String {
    let only = fabric.model.leaf_of_rail(rail).and_then(|leaf| fabric.leaves.get(leaf));
    match (rails[rail].as_deref(), only) {
        (_, Some(leaf)) => format!("leaf `{leaf}`"),
        (Some(rail), None) if fabric.leaves.is_empty() => format!("the switch of rail `{rail}`"),
        (Some(rail), None) => format!("all leaves of rail `{rail}`"),
        (None, None) => "the network between the hosts".to_owned(),
    }
}

fn describe_run(finished: &FinishedRun, names: &[HostName], rails: &[Option<String>]) -> String {
    let hosts: Vec<&str> = finished.run.hosts().into_iter().map(|host| names[host].as_str()).collect();
    let used: Vec<&str> = finished.run.rails().into_iter().filter_map(|rail| rails[rail].as_deref()).collect();
    let rails = if used.is_empty() { String::new() } else { format!(" on {}", used.join(", ")) };
    match finished.speed {
        RunSpeed::Slow(value) if value.is_finite() => {
            format!("{}{rails}: {}", hosts.join(", "), crate::acceptance::format_number(value))
        }
        _ => format!("{}{rails}: failed", hosts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptance::ExpectedValue;
    use crate::acceptance::FabricModel;

    #[test]
    fn host_is_in_one_pair_at_a_time() {
        let ring = GroupRun::ring(&[0, 1, 2, 3], &[0, 1]);
        let rounds = split_in_rounds(&ring);
        let expected = [(0, vec![(0, 1), (2, 3)]), (0, vec![(1, 2), (0, 3)])];
        assert_eq!(rounds[..2], expected);
        assert_eq!(rounds.len(), 4);
        let both = GroupRun::ring(&[0, 1], &[0]);
        assert_eq!(split_in_rounds(&both), [(0, vec![(0, 1)])], "both directions are one measurement");
    }

    fn group_row(hosts: &[&str], value: f64) -> TestRow {
        let limit = ExpectedValue::at_least(100.0, "GB/s", "declared");
        TestRow {
            hosts: hosts.iter().map(|host| HostName::new(*host)).collect(),
            rail: None,
            round: 1,
            isolation: false,
            verdict: limit.judge(value),
            worse: None,
            outputs: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Returns the parts that collectives of groups show, without further measurements.
    fn isolate_rows(hosts: &[&str], rows: Vec<TestRow>) -> (Vec<FabricPart>, Vec<FabricPart>) {
        let report = TestReport {
            test: "nccl-all-reduce-hosts".into(),
            parameters: std::collections::BTreeMap::new(),
            about: String::new(),
            scope: MeasuredScope::Group,
            unit: "GB/s".into(),
            rows,
            faults: Vec::new(),
            suspects: Vec::new(),
            comparison: Default::default(),
        };
        let names: Vec<HostName> = hosts.iter().map(|host| HostName::new(*host)).collect();
        let fabric = FabricModel::without_topology(names.len(), 1).unwrap().without_loopback();
        let runs = scheduled_runs(&report, &names, &[None]);
        assert_eq!(runs.len(), report.rows.len(), "each group is a run");
        let mut search = FaultIsolation::from_runs(&fabric, runs, 0);
        assert_eq!(search.next_run(), None);
        let found = search.finish();
        (found.named.into_iter().map(|named| named.part).collect(), found.suspects)
    }

    #[test]
    fn slow_host_is_found_by_collectives_of_pairs() {
        let hosts = ["a", "b", "c", "d"];
        let slow = |pair: [&str; 2]| group_row(&pair, if pair.contains(&"b") { 60.0 } else { 120.0 });
        let ring = [["a", "b"], ["c", "d"], ["b", "c"], ["a", "d"]].map(slow);
        assert_eq!(isolate_rows(&hosts, ring.to_vec()), (vec![FabricPart::Host(1)], Vec::new()));
    }

    #[test]
    fn slow_group_of_all_hosts_accuses_none_of_them() {
        let hosts = ["a", "b", "c"];
        let (named, suspects) = isolate_rows(&hosts, vec![group_row(&hosts, 60.0)]);
        assert_eq!(named, [], "one slow sample is not a verdict");
        assert!(hosts.iter().enumerate().all(|(at, _)| suspects.contains(&FabricPart::Host(at))), "{suspects:?}");
    }
}
