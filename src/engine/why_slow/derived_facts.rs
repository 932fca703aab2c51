//! Inputs of the questions in addition to observed facts: growth of counters, the pods of the job, declared lanes, and
//! differences from similar hosts.

use crate::config::Project;
use crate::facts::Facts;
use crate::facts::command::nccl_log::parse_nccl_log;
use crate::facts::outliers::OutlierReport;
use crate::kube::WorkloadPod;
use crate::model::{HostName, Value};
use crate::probe::UnansweredReason;
use serde_json::json;
use std::time::Duration;

/// Bytes of one unit of a port's data counters: they count words of four bytes (InfiniBand specification, PortCounters).
const WORD_BYTES: u64 = 4;

/// Facts whose differences from similar hosts matter for speed.
const SPEED_FACTS: [&str; 13] = [
    "acs",
    "driver",
    "gdr",
    "governor",
    "gpu_state",
    "gpus",
    "iommu",
    "machine",
    "nvlinks",
    "ofed",
    "rdma",
    "roce",
    "verbs",
];

/// Returns the growth of each port's counters, as the fact `traffic`.
pub(super) fn build_traffic(
    before: &Facts,
    after: Option<&Facts>,
    elapsed: Duration,
) -> Result<Value, UnansweredReason> {
    let read = |facts: &Facts| match facts.0.get("rdma_counters") {
        Some(read) => read.clone(),
        None => Err(UnansweredReason::new("was not observed")),
    };
    let missing = || UnansweredReason::new("the host did not answer again");
    let (before, after) = (read(before)?, read(after.ok_or_else(missing)?)?);
    let ports = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let earlier = ports(&before);
    let grown = ports(&after).into_iter().map(|port| {
        let same = earlier.iter().find(|old| old["name"] == port["name"] && old["port"] == port["port"]);
        build_port(&port, same.unwrap_or(&Value::Null))
    });
    Ok(json!({ "seconds": elapsed.as_secs(), "ports": grown.collect::<Vec<_>>() }))
}

/// A counter that is new or became smaller has restarted in between: its growth is not known, and counts as none.
fn build_port(after: &Value, before: &Value) -> Value {
    let counters = after["counters"].as_object().cloned().unwrap_or_default();
    let growth = |(name, value): (&String, &Value)| {
        let old = before["counters"].get(name)?.as_u64()?;
        Some((name.clone(), value.as_u64()?.checked_sub(old).filter(|grown| *grown > 0)?))
    };
    let grown: std::collections::BTreeMap<String, u64> = counters.iter().filter_map(growth).collect();
    let words: u64 = ["port_xmit_data", "port_rcv_data"].iter().filter_map(|name| grown.get(*name)).sum();
    let name = format!("{}/{}", after["name"].as_str().unwrap_or("?"), after["port"]);
    json!({ "name": name, "bytes": words * WORD_BYTES, "grown": grown })
}

/// Returns the lanes that the recipe ib-ports declares for the ports of a host, as the fact `declared_lanes`; null if
/// it is not declared.
pub(super) fn find_declared_lanes(project: &Project, host: &HostName) -> Value {
    let instances = project.instances.get(host).into_iter().flatten();
    let mut declared = instances.filter(|instance| instance.recipe.name == "ib-ports" && !instance.absent);
    let width = declared.next().and_then(|instance| instance.params.get("width"));
    width.map_or(Value::Null, |width| width.value.clone())
}

/// Returns the pods of a job on a host, as the fact `workload`.
pub(super) fn describe_pods(pods: &[WorkloadPod]) -> Value {
    let describe = |pod: &WorkloadPod| {
        json!({
            "name": pod.name,
            "rdma_resources": pod.rdma_resources,
            "privileged": pod.privileged,
            "may_lock_memory": pod.may_lock_memory,
            "environment": pod.environment,
        })
    };
    json!({ "pods": pods.iter().map(describe).collect::<Vec<_>>() })
}

/// Returns what NCCL logged about its network in the pods of a job, as the fact `nccl`. Pods whose log has nothing about
/// it are left out.
///
/// # Errors
/// It has nothing in any pod.
pub(super) fn describe_transport(pods: &[WorkloadPod]) -> Result<Value, UnansweredReason> {
    let describe = |pod: &WorkloadPod| {
        let seen = parse_nccl_log(pod.log.as_deref().ok()?);
        (seen.uses_rdma || seen.uses_sockets).then(|| {
            json!({
                "name": pod.name,
                "uses_rdma": seen.uses_rdma,
                "uses_sockets": seen.uses_sockets,
                "gdr_channels": seen.gdr_channels,
                "channels_without_gdr": seen.channels_without_gdr,
            })
        })
    };
    let known: Vec<Value> = pods.iter().filter_map(describe).collect();
    let unread = pods.iter().find_map(|pod| Some((&pod.name, pod.log.as_ref().err()?)));
    match (known.is_empty() && !pods.is_empty(), unread) {
        (false, _) => Ok(known.into()),
        (true, Some((pod, why))) => {
            Err(UnansweredReason::new(format!("the log of pod {pod} could not be read: {why}")))
        }
        (true, None) => Err(UnansweredReason::new(
            "no pod's log names NCCL's network: with `NCCL_DEBUG=INFO`, NCCL logs it when the job starts",
        )),
    }
}

/// Returns how a host differs from similar ones in what matters for speed, as the fact `peers`; null if it was compared
/// with none.
pub(super) fn describe_peers(outliers: &OutlierReport, host: &HostName) -> Value {
    if !outliers.classes.iter().any(|class| class.hosts.contains(host)) {
        return Value::Null;
    }
    let relevant = outliers.odd.iter().filter(|odd| SPEED_FACTS.contains(&odd.fact.as_str()));
    let describe = |odd: &crate::facts::outliers::FactOutlier| {
        let own = odd.odd.iter().find(|value| value.hosts.contains(host))?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(format!(
            "{} is {}, of {} similar hosts {}",
            odd.path.raw(),
            text(&own.value),
            odd.hosts,
            text(&odd.common)
        ))
    };
    relevant.filter_map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(counters: Value) -> Facts {
        let port = json!([{ "name": "mlx5_0", "port": 1, "counters": counters }]);
        Facts([("rdma_counters".to_owned(), Ok(port))].into())
    }

    #[test]
    fn growth_of_counters_is_the_traffic() {
        let before = facts(json!({"port_xmit_data": 100, "symbol_error": 4, "link_downed": 9}));
        let after = facts(json!({"port_xmit_data": 600, "symbol_error": 4, "link_downed": 1, "new": 5}));
        let traffic = build_traffic(&before, Some(&after), Duration::from_millis(5400)).unwrap();
        let port = json!({"name": "mlx5_0/1", "bytes": 2000, "grown": {"port_xmit_data": 500}});
        assert_eq!(traffic, json!({"seconds": 5, "ports": [port]}), "a counter that restarted did not grow");
    }

    #[test]
    fn transport_is_unknown_if_no_pod_logs_it() {
        let pod = |log: Result<&str, &str>| WorkloadPod {
            name: "train-0".to_owned(),
            node: None,
            rdma_resources: Vec::new(),
            privileged: false,
            may_lock_memory: false,
            environment: Default::default(),
            log: log.map(str::to_owned).map_err(str::to_owned),
        };
        assert_eq!(describe_transport(&[]), Ok(json!([])), "no job");
        let silent = describe_transport(&[pod(Ok("step 1: loss 3.2"))]).unwrap_err();
        assert!(silent.why.starts_with("no pod's log names NCCL's network"), "{silent:?}");
        let unread = describe_transport(&[pod(Ok("")), pod(Err("pods/log is forbidden"))]).unwrap_err();
        assert_eq!(unread.why, "the log of pod train-0 could not be read: pods/log is forbidden");
        let known =
            describe_transport(&[pod(Err("gone")), pod(Ok("h:7:7 [0] NCCL INFO Using network Socket"))]).unwrap();
        assert_eq!((known[0]["uses_sockets"].as_bool(), known[0]["uses_rdma"].as_bool()), (Some(true), Some(false)));
    }

    #[test]
    fn counters_that_were_read_once_are_unknown() {
        let once = build_traffic(&facts(json!({})), None, Duration::ZERO).unwrap_err();
        assert_eq!(once.why, "the host did not answer again");
        let none = build_traffic(&Facts::default(), Some(&facts(json!({}))), Duration::ZERO).unwrap_err();
        assert_eq!(none.why, "was not observed");
    }
}
