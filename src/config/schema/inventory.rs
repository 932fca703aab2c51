//! The schema of inventories.

use super::connection::connect_schema;
use super::drift::drift_property;
use super::parts::{
    LABEL_PATTERN, build_root_schema, duration_schema, list_schema, map_schema, nullable_schema, object_schema,
    text_list_schema, text_schema, vars_schema, with_description,
};
use super::rollout::rollout_property;
use super::test_launch::test_launch_schema;
use super::worker_pods::worker_pods_schema;
use crate::config::PairSelection;
use crate::config::inventory::tests::ENTRY_KEYS as TEST_ENTRY_KEYS;
use crate::config::inventory::{
    DRIFT_KEYS, FABRIC_KEYS, KEYS as INVENTORY_KEYS, KUBERNETES_KEYS, LEAF_KEYS, ROLLOUT_KEYS, UNDO_KEYS,
};
use crate::model::Value;
use serde_json::json;

/// Returns the schema of an inventory.
pub fn inventory_schema() -> Value {
    build_root_schema(
        "inventory",
        "The hosts of a cluster and the recipes applied to them.",
        object_schema(&INVENTORY_KEYS, inventory_property, &["cluster"]),
    )
}

fn inventory_property(key: &str) -> Value {
    match key {
        "cluster" => with_description(
            "Name of the cluster and of its state folder.",
            json!({ "type": "string", "pattern": LABEL_PATTERN }),
        ),
        "connect" => {
            with_description("Connection settings of all hosts. Groups and hosts can override them.", connect_schema())
        }
        "hosts" => with_description(
            "Hosts by name, or a list of names. Ranges are expanded: `node-[1:3]`.",
            json!({ "anyOf": [map_schema(nullable_schema(object_schema(&["address", "vars", "connect"], host_property, &[]))), text_list_schema()] }),
        ),
        "groups" => with_description(
            "Sets of hosts, with variables and connection settings.",
            map_schema(nullable_schema(object_schema(&["hosts", "groups", "vars", "connect"], group_property, &[]))),
        ),
        "recipes" => {
            with_description("Folders with recipes. Default: `recipes/` next to the inventory.", text_list_schema())
        }
        "apply" => with_description(
            "Recipes to apply, and the hosts to apply them to.",
            list_schema(object_schema(&["recipe", "on", "with", "ensure"], apply_property, &["recipe", "on"])),
        ),
        "rollout" => {
            with_description("How changes are rolled out.", object_schema(&ROLLOUT_KEYS, rollout_property, &[]))
        }
        "drift" => with_description("Settings of `forge drift`.", object_schema(&DRIFT_KEYS, drift_property, &[])),
        "undo" => with_description(
            "How long hosts keep what `forge undo` needs.",
            object_schema(&UNDO_KEYS, undo_property, &[]),
        ),
        "kubernetes" => with_description(
            "The Kubernetes API of the hosts' cluster. forge ignores `KUBECONFIG` and the current context.",
            object_schema(&KUBERNETES_KEYS, kubernetes_property, &["kubeconfig", "context"]),
        ),
        "worker_pods" => with_description("Where `--engine kubernetes` runs its workers.", worker_pods_schema()),
        "fabric" => with_description(
            "Which leaf switch each adapter is connected to.",
            object_schema(&FABRIC_KEYS, fabric_property, &[]),
        ),
        "tests" => with_description(
            "Sets of acceptance tests for `forge test`, by name. `quick`, `burn-in` and `full` replace the built-in ones.",
            map_schema(list_schema(object_schema(&TEST_ENTRY_KEYS, test_property, &["test", "on"]))),
        ),
        _ => json!({}),
    }
}

fn fabric_property(key: &str) -> Value {
    match key {
        "leaves" => with_description(
            "Leaf switches by name. A range expands in step with `rails`: `leaf-[01:08]` with `mlx5_[0:7]`.",
            map_schema(object_schema(&LEAF_KEYS, leaf_property, &["hosts"])),
        ),
        "spines" => with_description(
            "Spine switches: traffic to the hosts of a leaf passes them in turn. Leave it out if routes are not static.",
            json!({ "anyOf": [text_schema(), text_list_schema()] }),
        ),
        "ibnetdiscover" => with_description(
            "File with the output of `ibnetdiscover`, relative to the inventory, in place of `leaves`.",
            text_schema(),
        ),
        _ => json!({}),
    }
}

fn leaf_property(key: &str) -> Value {
    match key {
        "hosts" => with_description("Selector of the hosts that are connected to it.", text_schema()),
        "rails" => with_description(
            "Adapters of these hosts that are connected to it: `mlx5_0`. Default: all.",
            json!({ "anyOf": [text_schema(), text_list_schema()] }),
        ),
        _ => json!({}),
    }
}

fn undo_property(key: &str) -> Value {
    match key {
        "runs" => with_description(
            "Number of runs that changed the host. Default: 20.",
            json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
        ),
        "days" => with_description(
            "Age of a run in days. Default: any age.",
            json!({ "type": "integer", "minimum": 1, "maximum": 3650 }),
        ),
        _ => json!({}),
    }
}

fn test_property(key: &str) -> Value {
    let number = || json!({ "type": "number", "exclusiveMinimum": 0 });
    let share = || json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 });
    match key {
        "test" => with_description("A built-in test, or `tests/NAME.yaml` next to the inventory.", text_schema()),
        "on" => with_description("Selector of the hosts to test.", text_schema()),
        "with" => with_description("Parameters of the test.", vars_schema()),
        "rails" => with_description(
            "Adapters to test, one after the other: `mlx5_0`. Default: all with an active port.",
            text_list_schema(),
        ),
        "least" => with_description("Least good value, in the unit of the test.", number()),
        "most" => with_description("Greatest good value, in the unit of the test.", number()),
        "share" => with_description("Least good share of `of`, or of what the port and its slot can carry.", share()),
        "of" => with_description("What the hardware can reach, in the unit of the test.", number()),
        "floor" => with_description("Name of a published floor in `acceptance-floors`.", text_schema()),
        "peers" => with_description("How far a value may be below the median of all.", share()),
        "baseline" => {
            with_description("How far a value may be below that of the last accepted run. Default: 0.05.", share())
        }
        "schedule" => with_description(
            "Pairs to test: `ring` (each host with two others, the default), `all`, `leaf` (with two others of its leaf) or \
             `across` (with one of every other leaf).",
            json!({ "enum": PairSelection::ALL.map(PairSelection::name) }),
        ),
        "group_size" => with_description(
            "Hosts that run a test of scope `group` together. Default: all in one group.",
            json!({ "type": "integer", "minimum": 2 }),
        ),
        "network" => with_description(
            "What a collective may use between hosts: `rdma` (default; a run over sockets fails) or `any`.",
            json!({ "enum": ["rdma", "any"] }),
        ),
        "gpudirect" => with_description(
            "Whether a collective without GPUDirect RDMA fails. Default: false.",
            json!({ "type": "boolean" }),
        ),
        "required" => with_description(
            "Whether `forge drift` reports hosts that have not passed the test. Default: false.",
            json!({ "type": "boolean" }),
        ),
        "launch" => with_description(
            "How a collective starts. Default: with the command of the test, over ssh.",
            test_launch_schema(),
        ),
        "at_once" => with_description(
            "Pairs or groups that run at the same time. Default: as many as there are.",
            json!({ "type": "integer", "minimum": 0 }),
        ),
        _ => json!({}),
    }
}

fn kubernetes_property(key: &str) -> Value {
    match key {
        "kubeconfig" => with_description(
            "Kubeconfig: absolute, below `~/`, or relative to the inventory. With `via`, absolute on that host.",
            text_schema(),
        ),
        "context" => with_description("Context in the kubeconfig.", text_schema()),
        "via" => {
            with_description("Host through which forge reaches the API. The kubeconfig is on that host.", text_schema())
        }
        "retry" => with_description(
            "How long a request is retried while an API that has answered before does not respond, at most 25 s. Default: \
             `20s`.",
            duration_schema(),
        ),
        "namespace" => {
            with_description("Namespace of forge's lock and records. Default: `forge-provisioner`.", text_schema())
        }
        _ => json!({}),
    }
}

fn host_property(key: &str) -> Value {
    match key {
        "address" => {
            with_description("Host name, address or alias in ~/.ssh/config. Default: the host's name.", text_schema())
        }
        "vars" => with_description("Variables of this host. They set parameters of the same name.", vars_schema()),
        "connect" => with_description("Connection settings of this host.", connect_schema()),
        _ => json!({}),
    }
}

fn group_property(key: &str) -> Value {
    match key {
        "hosts" => with_description("Patterns of host names: `node-*`, `node-[1:3]`.", text_list_schema()),
        "groups" => with_description("Groups inside this one.", text_list_schema()),
        "vars" => with_description("Variables of its hosts. Inner groups override outer groups.", vars_schema()),
        "connect" => with_description("Connection settings of its hosts.", connect_schema()),
        _ => json!({}),
    }
}

fn apply_property(key: &str) -> Value {
    match key {
        "recipe" => with_description("Name of a recipe.", text_schema()),
        "on" => with_description(
            "Selector: `all`, `gpu`, `gpu:&rack_a:!canary`.",
            json!({ "anyOf": [text_schema(), text_list_schema()] }),
        ),
        "with" => with_description("Parameters.", vars_schema()),
        "ensure" => {
            with_description("Whether the recipe is applied or removed.", json!({ "enum": ["present", "absent"] }))
        }
        _ => json!({}),
    }
}
