//! The schema of `rollout:`.

use super::parts::{
    duration_schema, map_schema, object_schema, share_schema, text_list_schema, text_schema, with_description,
};
use crate::config::inventory::{DRAIN_KEYS, NODE_KEYS};
use crate::config::rollout::RebootPolicy;
use crate::model::Value;
use serde_json::json;

pub(super) fn rollout_property(key: &str) -> Value {
    match key {
        "canary" => with_description("How many hosts receive all their changes first.", share_schema()),
        "max_failed" => with_description("How many hosts may fail before no new host starts.", share_schema()),
        "max_unavailable" => {
            with_description("How many hosts may be out of service at once. Default: 25%.", share_schema())
        }
        "max_restarting" => with_description("How many hosts may restart the same service at once.", share_schema()),
        "quorum" => with_description("Groups of which no two hosts may be out of service at once.", text_list_schema()),
        "reboot" => with_description(
            "Whether hosts reboot if the plan requires it. Default: `never`.",
            json!({ "enum": RebootPolicy::ALL.map(RebootPolicy::name) }),
        ),
        "reboot_timeout" => {
            with_description("Timeout for a host to return from a reboot. Default: 30m.", duration_schema())
        }
        "reboot_guard" => with_description(
            "Time after a boot at which the host takes back what the run changed and reboots, unless the boot brought it \
             back. Default: 10m.",
            json!({ "anyOf": [duration_schema(), { "const": "off" }] }),
        ),
        "hours" => with_description(
            "Time of day at which windows may open, by the controller's clock: \"22:00-05:00\".",
            json!({ "type": "string", "pattern": "^[0-9]{2}:[0-9]{2} *- *[0-9]{2}:[0-9]{2}$" }),
        ),
        "busy" => with_description(
            "How to handle hosts whose devices are in use.",
            object_schema(&["wait"], rollout_property, &["wait"]),
        ),
        "wait" => with_description("How long a window waits until the devices are free.", duration_schema()),
        "return_tests" => with_description(
            "Set of acceptance tests of single hosts that a host has to pass before it is brought back into service.",
            text_schema(),
        ),
        "drain" => {
            let mut who = object_schema(&DRAIN_KEYS, rollout_property, &[]);
            who["minProperties"] = json!(1);
            with_description("Schedulers whose nodes are drained before a window.", who)
        }
        "slurm" => with_description("Group whose hosts are Slurm nodes.", text_schema()),
        "kubernetes" => with_description(
            "Group whose hosts are nodes of the cluster in `kubernetes`.",
            json!({ "anyOf": [text_schema(), object_schema(&NODE_KEYS, node_drain_property, &["group"])] }),
        ),
        _ => json!({}),
    }
}

fn node_drain_property(key: &str) -> Value {
    let truth = || json!({ "type": "boolean" });
    match key {
        "group" => with_description("Group whose hosts are Kubernetes nodes.", text_schema()),
        "timeout" => with_description("Timeout of the drain. Default: 10m.", duration_schema()),
        "grace" => with_description("Grace period of each pod. Default: the pod's own.", duration_schema()),
        "delete_emptydir_data" => {
            with_description("Whether to delete pods with `emptyDir` volumes. Their data is lost.", truth())
        }
        "delete_unmanaged" => {
            with_description("Whether to delete pods without a controller. Nothing recreates them.", truth())
        }
        "returns" => with_description(
            "Amount of each resource that a node must offer before it is uncordoned: a number, or `capacity`.",
            map_schema(json!({ "type": ["integer", "string"] })),
        ),
        "test_labels" => with_description(
            "Sets of acceptance tests: nodes whose hosts hold one have the label `forge/test-SET: passed`.",
            text_list_schema(),
        ),
        "returns_within" => with_description("How long to wait for these resources. Default: 10m.", duration_schema()),
        _ => json!({}),
    }
}
