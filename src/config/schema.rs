//! JSON Schemas (draft 2020-12) of inventories and recipes, for editors. Keys come from the lists that the parsers use.

use super::inventory::{
    CONNECT_KEYS, DRAIN_KEYS, DRIFT_KEYS, IGNORE_KEYS, KEYS as INVENTORY_KEYS, KUBERNETES_KEYS, NODE_KEYS,
    ROLLOUT_KEYS, notify, smtp,
};
use super::recipe::{KEY_TYPES, PARAM_TYPES, RECIPE_KEYS, STEP_KEYS};
use super::rollout::RebootPolicy;
use crate::model::{BOARDS, DURATION_PATTERN, SmtpEncryption, StepPhase, StepScope, Value};
use crate::resource::{all_kinds, schema::kind_schema};
use serde_json::{Map, json};

/// Names that templates can read with a dot.
const IDENTIFIER_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// Names that are also used as file names.
const LABEL_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";

/// Returns the schema of an inventory.
pub fn inventory_schema() -> Value {
    build_root_schema(
        "inventory",
        "The hosts of a cluster and the recipes applied to them.",
        object_schema(&INVENTORY_KEYS, inventory_property, &["cluster"]),
    )
}

/// Returns the schema of a recipe or stack, the fields of every kind of resource included.
pub fn recipe_schema() -> Value {
    let mut schema = object_schema(&RECIPE_KEYS, recipe_property, &["recipe"]);
    schema["anyOf"] = json!([{ "required": ["steps"] }, { "required": ["verify"] }, { "required": ["uses"] }]);
    build_root_schema("recipe", "Steps that configure one component, and their verification.", schema)
}

fn build_root_schema(title: &str, description: &str, schema: Value) -> Value {
    let mut root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
    });
    if let (Some(root), Value::Object(schema)) = (root.as_object_mut(), schema) {
        root.extend(schema);
    }
    root
}

/// Returns the schema of a map with exactly these keys.
fn object_schema(keys: &[&str], of: fn(&str) -> Value, required: &[&str]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), of(key))).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn with_description(description: &str, mut schema: Value) -> Value {
    schema["description"] = json!(description);
    schema
}

/// Returns the schema of text. Plain numbers and booleans are valid text: scalars keep what was typed.
fn text_schema() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

fn text_list_schema() -> Value {
    json!({ "type": "array", "items": text_schema() })
}

fn nullable_schema(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn map_schema(schema: Value) -> Value {
    json!({ "type": "object", "additionalProperties": schema })
}

fn list_schema(schema: Value) -> Value {
    json!({ "type": "array", "items": schema })
}

fn share_schema() -> Value {
    json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+%?$" }] })
}

fn duration_schema() -> Value {
    json!({ "type": "string", "pattern": DURATION_PATTERN, "minLength": 2 })
}

fn vars_schema() -> Value {
    json!({ "type": "object", "propertyNames": { "pattern": IDENTIFIER_PATTERN } })
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
        "kubernetes" => with_description(
            "The Kubernetes API of the hosts' cluster. forge ignores `KUBECONFIG` and the current context.",
            object_schema(&KUBERNETES_KEYS, kubernetes_property, &["kubeconfig", "context"]),
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

fn rollout_property(key: &str) -> Value {
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
        "hours" => with_description(
            "Time of day at which windows may open, by the controller's clock: \"22:00-05:00\".",
            json!({ "type": "string", "pattern": "^[0-9]{2}:[0-9]{2} *- *[0-9]{2}:[0-9]{2}$" }),
        ),
        "busy" => with_description(
            "How to handle hosts whose devices are in use.",
            object_schema(&["wait"], rollout_property, &["wait"]),
        ),
        "wait" => with_description("How long a window waits until the devices are free.", duration_schema()),
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
        "returns_within" => with_description("How long to wait for these resources. Default: 10m.", duration_schema()),
        _ => json!({}),
    }
}

fn drift_property(key: &str) -> Value {
    match key {
        "ignore" => with_description(
            "Paths and steps to ignore.",
            list_schema(object_schema(&IGNORE_KEYS, ignore_property, &["why", "until"])),
        ),
        "keep" => with_description(
            "Days to keep history. Default: 90.",
            json!({ "type": "integer", "minimum": 1, "maximum": 3650 }),
        ),
        "unconfined" => with_description(
            "Whether to run a recipe's own checks even if the host cannot prevent them from writing.",
            json!({ "type": "boolean" }),
        ),
        "first_seen" => with_description(
            "Where first-seen times are stored: on the `controller`, or also on each `host` (drift then writes to it).",
            json!({ "enum": ["controller", "host"] }),
        ),
        "notify" => {
            with_description("Recipients of a notification when findings change.", list_schema(recipient_schema()))
        }
        "outliers" => with_description(
            "Compare similar hosts: `show` shows outliers, `count` also counts them as findings.",
            json!({ "enum": ["show", "count"] }),
        ),
        _ => json!({}),
    }
}

/// Returns the schema of a recipient: exactly one service, by its key.
fn recipient_schema() -> Value {
    let mut entry = object_schema(&notify::KEYS, recipient_property, &[]);
    let one: Vec<Value> = notify::SERVICES.iter().map(|service| json!({ "required": [service] })).collect();
    entry["oneOf"] = one.into();
    entry
}

fn recipient_property(key: &str) -> Value {
    match key {
        "name" => with_description(
            "Unique name of the recipient. Default: the name of the service.",
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$" }),
        ),
        "webhook" => with_description(
            "The notification as JSON, by POST.",
            object_schema(&notify::WEBHOOK_KEYS, service_property, &["url"]),
        ),
        "slack" => {
            with_description("Slack incoming webhook.", object_schema(&notify::CHAT_KEYS, service_property, &["url"]))
        }
        "feishu" => with_description(
            "Feishu (Lark) custom bot.",
            object_schema(&notify::SIGNED_KEYS, service_property, &["url"]),
        ),
        "dingtalk" => {
            with_description("DingTalk custom bot.", object_schema(&notify::SIGNED_KEYS, service_property, &["url"]))
        }
        "wecom" => with_description("WeCom group bot.", object_schema(&notify::CHAT_KEYS, service_property, &["url"])),
        "email" => with_description(
            "Email, sent with `sendmail -t` or to a mail server.",
            object_schema(&notify::EMAIL_KEYS, service_property, &["to"]),
        ),
        _ => json!({}),
    }
}

fn service_property(key: &str) -> Value {
    match key {
        "url" => with_description(
            "URL of the webhook. Anyone who knows it can post there, so it is a secret.",
            secret_schema(),
        ),
        "token" => with_description("Sent as `Authorization: Bearer`.", secret_schema()),
        "secret" => with_description("Key that signs the messages.", secret_schema()),
        "to" => with_description(
            "Email addresses.",
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
        ),
        "from" => with_description("Address of the sender.", text_schema()),
        "sendmail" => with_description(
            "Program to use instead of `/usr/sbin/sendmail`. Requires `--trust`.",
            json!({ "type": "string", "pattern": "^/" }),
        ),
        "smtp" => with_description(
            "Mail server to use instead of `sendmail`. Requires `from`.",
            object_schema(&smtp::KEYS, smtp_property, &["host"]),
        ),
        _ => json!({}),
    }
}

fn smtp_property(key: &str) -> Value {
    match key {
        "host" => with_description("Name or IP address of the server.", text_schema()),
        "port" => with_description(
            "Default: 587 with `starttls`, 465 with `implicit`, 25 with `none`.",
            json!({ "type": "integer", "minimum": 1, "maximum": 65_535 }),
        ),
        "user" => with_description("User name; requires `password`.", text_schema()),
        "password" => with_description("Password of the user.", secret_schema()),
        "tls" => with_description(
            "`starttls` (default), `implicit` (default with port 465), or `none`, with a password only to this machine.",
            json!({ "enum": smtp::TLS_MODES.map(SmtpEncryption::as_str) }),
        ),
        _ => json!({}),
    }
}

fn ignore_property(key: &str) -> Value {
    match key {
        "path" => with_description("Path or glob pattern.", json!({ "type": "string", "pattern": "^/" })),
        "step" => with_description("`recipe` or `recipe/step`. Globs are allowed.", text_schema()),
        "why" => with_description("Reason, shown in the report.", json!({ "type": "string", "minLength": 1 })),
        "until" => {
            with_description("Last day on which the rule is effective.", json!({ "type": "string", "format": "date" }))
        }
        _ => json!({}),
    }
}

fn connect_schema() -> Value {
    // The parser accepts `address` only to report where it belongs.
    let keys: Vec<&str> = CONNECT_KEYS.into_iter().filter(|key| *key != "address").collect();
    object_schema(&keys, connect_property, &[])
}

fn connect_property(key: &str) -> Value {
    match key {
        "user" => with_description("User to log in as.", text_schema()),
        "identity" => {
            with_description("Private key: an absolute path, below `~/`, or relative to the inventory.", text_schema())
        }
        "port" => with_description("SSH port.", json!({ "type": "integer", "minimum": 1, "maximum": 65535 })),
        "config" => with_description("ssh configuration file (`ssh -F`).", text_schema()),
        "known_hosts" => with_description("File with known host keys.", text_schema()),
        "jump" => {
            with_description("Jump hosts, first hop first.", json!({ "anyOf": [text_schema(), text_list_schema()] }))
        }
        "host_key" => {
            with_description("How to handle an unknown host key.", json!({ "enum": ["strict", "accept_new"] }))
        }
        "sudo" => with_description(
            "Use sudo to become root, optionally with a password.",
            json!({ "anyOf": [
                { "type": "boolean" },
                { "type": "object", "properties": { "password": secret_schema() }, "required": ["password"], "additionalProperties": false },
            ] }),
        ),
        "transport" => {
            with_description("Transport to use. Default: `ssh`.", json!({ "enum": ["ssh", "local", "sandbox"] }))
        }
        "command" => {
            with_description("Program that runs a shell on its stdin. Requires `--trust`.", text_list_schema())
        }
        "hardware" => {
            with_description("Board that a sandbox simulates.", json!({ "enum": BOARDS.map(|board| board.name) }))
        }
        "timeout" => with_description("Connection timeout.", duration_schema()),
        "keep" => with_description("How long to keep a session open for the next run.", duration_schema()),
        _ => json!({}),
    }
}

fn secret_schema() -> Value {
    json!({
        "description": "Source of a secret: an environment variable or a file.",
        "type": "object",
        "properties": { "env": text_schema(), "file": text_schema() },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": false,
    })
}

fn recipe_property(key: &str) -> Value {
    match key {
        "recipe" => with_description("Name of the recipe.", json!({ "type": "string", "pattern": LABEL_PATTERN })),
        "summary" => with_description("One-line summary.", text_schema()),
        "params" => with_description("Typed parameters.", params_schema()),
        "needs" => with_description("Dependencies that must succeed before any step of the recipe.", edges_schema()),
        "after" => with_description(
            "Recipes and steps that run before the recipe; their success is not required.",
            edges_schema(),
        ),
        "during" => during_schema(),
        "supports" => with_description(
            "Distributions on which the recipe works: `ID` of `/etc/os-release`, with its releases. An empty list is every release. Default: every distribution.",
            map_schema(list_schema(text_schema())),
        ),
        "rules" => with_description(
            "Conditions on parameters and facts.",
            list_schema(object_schema(&super::recipe::RULE_KEYS, rule_property, &["require", "else"])),
        ),
        "steps" => with_description("Steps, in execution order.", list_schema(step_schema())),
        "verify" => with_description(
            "Checks that must pass once the recipe is applied.",
            list_schema(object_schema(&super::recipe::VERIFY_KEYS, verify_property, &["name"])),
        ),
        "fails_as" => with_description(
            "Known failure messages of programs, with their causes.",
            list_schema(object_schema(&["text", "cause"], fails_as_property, &["text", "cause"])),
        ),
        "uses" => with_description(
            "Recipes that a stack uses.",
            list_schema(object_schema(&["recipe", "when", "with"], uses_property, &["recipe"])),
        ),
        _ => json!({}),
    }
}

fn during_schema() -> Value {
    with_description(
        "Requirements while other recipes change.",
        map_schema(object_schema(&["stopped", "unloaded"], during_property, &[])),
    )
}

fn during_property(key: &str) -> Value {
    match key {
        "stopped" => with_description("Units that must be stopped.", text_list_schema()),
        "unloaded" => with_description("Kernel modules that must be unloaded.", text_list_schema()),
        _ => json!({}),
    }
}

fn params_schema() -> Value {
    let param = object_schema(&["type", "of", "keys", "values", "default", "doc"], param_property, &["type"]);
    json!({ "type": "object", "propertyNames": { "pattern": IDENTIFIER_PATTERN }, "additionalProperties": param })
}

fn param_property(key: &str) -> Value {
    match key {
        "type" => with_description("Type of the parameter.", json!({ "enum": PARAM_TYPES })),
        "of" => {
            let types: Vec<&str> = PARAM_TYPES.iter().copied().chain(["any"]).collect();
            with_description("Type of the elements of a list or map. Default: text.", json!({ "enum": types }))
        }
        "keys" => with_description("Type of the keys of a map. Default: text.", json!({ "enum": KEY_TYPES })),
        "values" => {
            with_description("Allowed values of an enum. Quote `on`, `off`, `yes` and `no`.", text_list_schema())
        }
        "default" => with_description("Default value.", json!({})),
        "doc" => with_description("Description.", text_schema()),
        _ => json!({}),
    }
}

fn rule_property(key: &str) -> Value {
    match key {
        "when" => with_description("Expression: whether the rule applies.", text_schema()),
        "require" => with_description("Expression that must be true.", text_schema()),
        "else" => with_description("Message if it is false. Plain text.", text_schema()),
        "class" => with_description(
            "Why a host that breaks the rule is blocked. `warning` does not block.",
            json!({ "enum": ["rule", "hardware", "host", "warning"] }),
        ),
        "scope" => scope_schema(),
        "accept" => with_description(
            "Text parameter of the recipe. If it is not empty, the rule only warns, with this text as the reason.",
            text_schema(),
        ),
        _ => json!({}),
    }
}

fn scope_schema() -> Value {
    with_description(
        "Evaluate it on each host or on the cluster. Default: `host`.",
        json!({ "enum": ["host", "cluster"] }),
    )
}

fn object_key_property(key: &str) -> Value {
    match key {
        "api_version" => with_description("`v1`, `apps/v1`.", text_schema()),
        "kind" => with_description("Kind of the objects.", text_schema()),
        "namespace" => with_description("Namespace. Default: all namespaces.", text_schema()),
        "name" => with_description("Name of the object.", text_schema()),
        "labels" => with_description("Labels that the objects must have.", map_schema(text_schema())),
        _ => json!({}),
    }
}

fn fails_as_property(key: &str) -> Value {
    match key {
        "text" => with_description("Part of a line that the program prints. `…` matches any text.", text_schema()),
        "cause" => with_description("Cause of the failure, and how to fix it.", text_schema()),
        _ => json!({}),
    }
}

fn verify_property(key: &str) -> Value {
    match key {
        "name" => with_description("Name of the check.", text_schema()),
        "when" => with_description("Expression: whether the check applies.", text_schema()),
        "scope" => scope_schema(),
        "object" => with_description(
            "One object of the cluster, which `expect` reads as `object`.",
            object_schema(&super::recipe::OBJECT_KEYS, object_key_property, &["api_version", "kind", "name"]),
        ),
        "objects" => with_description(
            "Objects of the cluster, which `expect` reads as the list `objects`.",
            object_schema(&super::recipe::OBJECT_LIST_KEYS, object_key_property, &["api_version", "kind"]),
        ),
        "shows" => with_description("Template that shows the relevant values if the check fails.", text_schema()),
        "within" => {
            with_description("How long an apply waits for the check to pass on the cluster.", duration_schema())
        }
        "expect" => with_description("Expression over facts.", text_schema()),
        "check" => with_description("Read-only command that must exit 0.", text_schema()),
        "level" => with_description("Verification level.", json!({ "enum": ["L0", "L1", "L2", "L3", "L4", "L5"] })),
        "by" => with_description("What makes the change effective.", list_schema(text_schema())),
        _ => json!({}),
    }
}

fn uses_property(key: &str) -> Value {
    match key {
        "recipe" => with_description("Name of a recipe.", text_schema()),
        "when" => with_description("Expression: whether the recipe is used.", text_schema()),
        "with" => with_description("Parameters to pass.", vars_schema()),
        _ => json!({}),
    }
}

/// Returns the schema of edges: one edge, a list, or a map from edges to barriers.
fn edges_schema() -> Value {
    let long = object_schema(&["recipe", "step", "phase", "optional", "of", "least"], edge_property, &[]);
    let barrier = object_schema(&["of", "least", "phase"], edge_property, &[]);
    json!({ "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "anyOf": [{ "type": "string" }, long] } },
        { "type": "object", "additionalProperties": nullable_schema(barrier) },
    ] })
}

fn edge_property(key: &str) -> Value {
    match key {
        "recipe" => with_description("Name of a recipe.", text_schema()),
        "step" => with_description("One of its steps. Default: all steps.", text_schema()),
        "phase" => with_description("Phase to wait for.", json!({ "enum": StepPhase::ALL.map(StepPhase::name) })),
        "optional" => {
            with_description("Ignore the edge if that recipe is not applied (`name?`).", json!({ "type": "boolean" }))
        }
        "of" => with_description("Makes the edge a barrier across hosts.", json!({ "enum": ["selected"] })),
        "least" => with_description("How many of the hosts must have reached the phase.", share_schema()),
        _ => json!({}),
    }
}

/// Returns the schema of a step: common keys, and exactly one resource.
fn step_schema() -> Value {
    let mut schema = object_schema(&STEP_KEYS, step_property, &["name"]);
    for kind in all_kinds() {
        let mut fields = kind_schema(kind);
        if let Some(fields) = fields.as_object_mut() {
            fields.remove("$schema");
        }
        schema["properties"][kind.name] = fields;
    }
    schema["oneOf"] = all_kinds().iter().map(|kind| json!({ "required": [kind.name] })).collect();
    schema
}

fn step_property(key: &str) -> Value {
    match key {
        "name" => with_description(
            "Short name without `/`, `@`, brackets and braces.",
            json!({ "type": "string", "maxLength": 100 }),
        ),
        "when" => with_description("Expression: whether the step applies.", text_schema()),
        "otherwise" => with_description("Remove the resource if `when` is false.", json!({ "enum": ["absent"] })),
        "each" => with_description("Expression: repeat the step for each item of a list or map.", text_schema()),
        "key" => with_description("Expression: name of each repetition.", text_schema()),
        "needs" => with_description("Dependencies that must succeed before the step.", edges_schema()),
        "after" => with_description(
            "Recipes and steps that run before the step; their success is not required.",
            edges_schema(),
        ),
        "effective" => with_description(
            "How the step takes effect, and how to verify that.",
            object_schema(&["by", "expect", "check"], verify_property, &[]),
        ),
        "during" => during_schema(),
        "restart_on" => with_description(
            "Steps whose change restarts this service, reboots the host, or reruns this command's check.",
            text_list_schema(),
        ),
        "provides" => with_description(
            "Resources that it provides.",
            object_schema(&["files", "units", "users", "packages"], provides_property, &[]),
        ),
        "export" => with_description(
            "Values that other steps read.",
            map_schema(object_schema(&["read", "stdout", "value", "secret"], export_property, &[])),
        ),
        "disruption" => with_description("Maximum disruption class.", json!({ "enum": ["D0", "D1", "D2", "D3"] })),
        "scope" => with_description("Where the step runs.", json!({ "enum": StepScope::ALL.map(StepScope::name) })),
        "level" => {
            with_description("Verification level of the step.", json!({ "enum": ["L0", "L1", "L2", "L3", "L4", "L5"] }))
        }
        "timeout" => with_description("Timeout of its commands.", duration_schema()),
        "retries" => with_description(
            "Number of retries of a failed change, 2 s apart; not of `long` commands.",
            json!({ "type": "integer", "minimum": 0, "maximum": 10 }),
        ),
        "long" => with_description("Keep the command running if the connection is lost.", json!({ "type": "boolean" })),
        _ => json!({}),
    }
}

fn provides_property(key: &str) -> Value {
    with_description(&format!("Names of {key}."), text_list_schema())
}

fn export_property(key: &str) -> Value {
    match key {
        "read" => with_description("Read-only command whose output is the value.", text_schema()),
        "stdout" => with_description("Use the output of the step as the value.", json!({ "type": "boolean" })),
        "value" => with_description("Expression over facts that is the value.", text_schema()),
        "secret" => with_description("Whether the value is secret.", json!({ "type": "boolean" })),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every key has a description, so that new keys of the parsers are documented here.
    fn assert_described(schema: &Value, path: &str) {
        let Some(properties) = schema["properties"].as_object() else { return };
        for (key, property) in properties {
            assert!(property["description"].is_string(), "{path}.{key} has no description");
            assert_described(property, &format!("{path}.{key}"));
        }
    }

    #[test]
    fn every_key_is_described() {
        assert_described(&inventory_schema(), "inventory");
        assert_described(&recipe_schema(), "recipe");
        assert_described(&step_schema(), "step");
    }

    #[test]
    fn step_schema_covers_every_kind() {
        let step = step_schema();
        for kind in all_kinds() {
            assert_eq!(step["properties"][kind.name]["additionalProperties"], json!(false), "{}", kind.name);
        }
        assert_eq!(step["oneOf"].as_array().unwrap().len(), all_kinds().len());
    }
}
