//! JSON Schemas (draft 2020-12) of inventories and recipes, for editors. Keys come from the lists that the parsers use.

use super::inventory::notify;
use super::inventory::{
    CONNECT_KEYS, DRAIN_KEYS, DRIFT_KEYS, IGNORE_KEYS, KEYS as INVENTORY_KEYS, KUBERNETES_KEYS, NODE_KEYS, ROLLOUT_KEYS,
};
use super::recipe::{COMMON as STEP_KEYS, KEY_TYPES, KEYS as RECIPE_KEYS, TYPES};
use super::rollout::RebootPolicy;
use crate::model::{DURATION_PATTERN, StepPhase, StepScope, Value};
use crate::resource::{kinds, schema::kind_schema};
use crate::transport::BOARDS;
use serde_json::{Map, json};

/// Names that templates can read with a dot.
const IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// Names that are also used as file names.
const LABEL: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";

/// Returns the schema of an inventory.
pub fn inventory_schema() -> Value {
    root(
        "inventory",
        "The hosts of a cluster and the recipes applied to them.",
        object(&INVENTORY_KEYS, inventory, &["cluster"]),
    )
}

/// Returns the schema of a recipe or stack, the fields of every kind of resource included.
pub fn recipe_schema() -> Value {
    let mut schema = object(&RECIPE_KEYS, recipe, &["recipe"]);
    schema["anyOf"] = json!([{ "required": ["steps"] }, { "required": ["verify"] }, { "required": ["uses"] }]);
    root("recipe", "Steps that configure one component, and their verification.", schema)
}

fn root(title: &str, description: &str, schema: Value) -> Value {
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
fn object(keys: &[&str], of: fn(&str) -> Value, required: &[&str]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), of(key))).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn said(description: &str, mut schema: Value) -> Value {
    schema["description"] = json!(description);
    schema
}

/// Returns the schema of text. Plain numbers and booleans are valid text: scalars keep what was typed.
fn text() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

fn texts() -> Value {
    json!({ "type": "array", "items": text() })
}

fn or_nothing(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn map_of(schema: Value) -> Value {
    json!({ "type": "object", "additionalProperties": schema })
}

fn list_of(schema: Value) -> Value {
    json!({ "type": "array", "items": schema })
}

fn share() -> Value {
    json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+%?$" }] })
}

fn duration() -> Value {
    json!({ "type": "string", "pattern": DURATION_PATTERN, "minLength": 2 })
}

fn vars() -> Value {
    json!({ "type": "object", "propertyNames": { "pattern": IDENTIFIER } })
}

fn inventory(key: &str) -> Value {
    match key {
        "cluster" => {
            said("Name of the cluster and of its state folder.", json!({ "type": "string", "pattern": LABEL }))
        }
        "connect" => said("Connection settings of all hosts. Groups and hosts can override them.", connect()),
        "hosts" => said(
            "Hosts by name, or a list of names. Ranges are expanded: `node-[1:3]`.",
            json!({ "anyOf": [map_of(or_nothing(object(&["address", "vars", "connect"], host, &[]))), texts()] }),
        ),
        "groups" => said(
            "Sets of hosts, with variables and connection settings.",
            map_of(or_nothing(object(&["hosts", "groups", "vars", "connect"], group, &[]))),
        ),
        "recipes" => said("Folders with recipes. Default: `recipes/` next to the inventory.", texts()),
        "apply" => said(
            "Recipes to apply, and the hosts to apply them to.",
            list_of(object(&["recipe", "on", "with", "ensure"], entry, &["recipe", "on"])),
        ),
        "rollout" => said("How changes are rolled out.", object(&ROLLOUT_KEYS, rollout, &[])),
        "drift" => said("Settings of `forge drift`.", object(&DRIFT_KEYS, drift, &[])),
        "kubernetes" => said(
            "The Kubernetes API of the hosts' cluster. forge ignores `KUBECONFIG` and the current context.",
            object(&KUBERNETES_KEYS, kubernetes, &["kubeconfig", "context"]),
        ),
        _ => json!({}),
    }
}

fn kubernetes(key: &str) -> Value {
    match key {
        "kubeconfig" => said(
            "Kubeconfig: absolute, below `~/`, or relative to the inventory. With `via`, absolute on that host.",
            text(),
        ),
        "context" => said("Context in the kubeconfig.", text()),
        "via" => said("Host through which forge reaches the API. The kubeconfig is on that host.", text()),
        "namespace" => said("Namespace of forge's lock and records. Default: `forge-provisioner`.", text()),
        _ => json!({}),
    }
}

fn host(key: &str) -> Value {
    match key {
        "address" => said("Host name, address or alias in ~/.ssh/config. Default: the host's name.", text()),
        "vars" => said("Variables of this host. They set parameters of the same name.", vars()),
        "connect" => said("Connection settings of this host.", connect()),
        _ => json!({}),
    }
}

fn group(key: &str) -> Value {
    match key {
        "hosts" => said("Patterns of host names: `node-*`, `node-[1:3]`.", texts()),
        "groups" => said("Groups inside this one.", texts()),
        "vars" => said("Variables of its hosts. Inner groups override outer groups.", vars()),
        "connect" => said("Connection settings of its hosts.", connect()),
        _ => json!({}),
    }
}

fn entry(key: &str) -> Value {
    match key {
        "recipe" => said("Name of a recipe.", text()),
        "on" => said("Selector: `all`, `gpu`, `gpu:&rack_a:!canary`.", json!({ "anyOf": [text(), texts()] })),
        "with" => said("Parameters.", vars()),
        "ensure" => said("Whether the recipe is applied or removed.", json!({ "enum": ["present", "absent"] })),
        _ => json!({}),
    }
}

fn rollout(key: &str) -> Value {
    match key {
        "canary" => said("How many hosts receive all their changes first.", share()),
        "max_failed" => said("How many hosts may fail before no new host starts.", share()),
        "max_unavailable" => said("How many hosts may be out of service at once. Default: 25%.", share()),
        "max_restarting" => said("How many hosts may restart the same service at once.", share()),
        "quorum" => said("Groups of which no two hosts may be out of service at once.", texts()),
        "reboot" => said(
            "Whether hosts reboot if the plan requires it. Default: `never`.",
            json!({ "enum": RebootPolicy::ALL.map(RebootPolicy::name) }),
        ),
        "reboot_timeout" => said("Timeout for a host to return from a reboot. Default: 30m.", duration()),
        "hours" => said(
            "Time of day at which windows may open, by the controller's clock: \"22:00-05:00\".",
            json!({ "type": "string", "pattern": "^[0-9]{2}:[0-9]{2} *- *[0-9]{2}:[0-9]{2}$" }),
        ),
        "busy" => said("How to handle hosts whose devices are in use.", object(&["wait"], rollout, &["wait"])),
        "wait" => said("How long a window waits until the devices are free.", duration()),
        "drain" => {
            let mut who = object(&DRAIN_KEYS, rollout, &[]);
            who["minProperties"] = json!(1);
            said("Schedulers whose nodes are drained before a window.", who)
        }
        "slurm" => said("Group whose hosts are Slurm nodes.", text()),
        "kubernetes" => said(
            "Group whose hosts are nodes of the cluster in `kubernetes`.",
            json!({ "anyOf": [text(), object(&NODE_KEYS, node_drain, &["group"])] }),
        ),
        _ => json!({}),
    }
}

fn node_drain(key: &str) -> Value {
    let truth = || json!({ "type": "boolean" });
    match key {
        "group" => said("Group whose hosts are Kubernetes nodes.", text()),
        "timeout" => said("Timeout of the drain. Default: 10m.", duration()),
        "grace" => said("Grace period of each pod. Default: the pod's own.", duration()),
        "delete_emptydir_data" => said("Whether to delete pods with `emptyDir` volumes. Their data is lost.", truth()),
        "delete_unmanaged" => said("Whether to delete pods without a controller. Nothing recreates them.", truth()),
        "returns" => said(
            "Amount of each resource that a node must offer before it is uncordoned: a number, or `capacity`.",
            map_of(json!({ "type": ["integer", "string"] })),
        ),
        "returns_within" => said("How long to wait for these resources. Default: 10m.", duration()),
        _ => json!({}),
    }
}

fn drift(key: &str) -> Value {
    match key {
        "ignore" => said("Paths and steps to ignore.", list_of(object(&IGNORE_KEYS, ignored, &["why", "until"]))),
        "keep" => {
            said("Days to keep history. Default: 90.", json!({ "type": "integer", "minimum": 1, "maximum": 3650 }))
        }
        "unconfined" => said(
            "Whether to run a recipe's own checks even if the host cannot prevent them from writing.",
            json!({ "type": "boolean" }),
        ),
        "first_seen" => said(
            "Where first-seen times are stored: on the `controller`, or also on each `host` (drift then writes to it).",
            json!({ "enum": ["controller", "host"] }),
        ),
        "notify" => said("Recipients of a notification when findings change.", list_of(recipient())),
        "outliers" => said(
            "Compare similar hosts: `show` shows outliers, `count` also counts them as findings.",
            json!({ "enum": ["show", "count"] }),
        ),
        _ => json!({}),
    }
}

/// Returns the schema of a recipient: exactly one service, by its key.
fn recipient() -> Value {
    let mut entry = object(&notify::KEYS, recipient_key, &[]);
    let one: Vec<Value> = notify::SERVICES.iter().map(|service| json!({ "required": [service] })).collect();
    entry["oneOf"] = one.into();
    entry
}

fn recipient_key(key: &str) -> Value {
    match key {
        "name" => said(
            "Unique name of the recipient. Default: the name of the service.",
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$" }),
        ),
        "webhook" => said("The notification as JSON, by POST.", object(&notify::WEBHOOK_KEYS, service_key, &["url"])),
        "slack" => said("Slack incoming webhook.", object(&notify::CHAT_KEYS, service_key, &["url"])),
        "feishu" => said("Feishu (Lark) custom bot.", object(&notify::SIGNED_KEYS, service_key, &["url"])),
        "dingtalk" => said("DingTalk custom bot.", object(&notify::SIGNED_KEYS, service_key, &["url"])),
        "wecom" => said("WeCom group bot.", object(&notify::CHAT_KEYS, service_key, &["url"])),
        "email" => said("Email, sent with `sendmail -t`.", object(&notify::EMAIL_KEYS, service_key, &["to"])),
        _ => json!({}),
    }
}

fn service_key(key: &str) -> Value {
    match key {
        "url" => said("URL of the webhook. Anyone who knows it can post there, so it is a secret.", secret()),
        "token" => said("Sent as `Authorization: Bearer`.", secret()),
        "secret" => said("Key that signs the messages.", secret()),
        "to" => said("Email addresses.", json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })),
        "from" => said("Address of the sender.", text()),
        "sendmail" => said(
            "Program to use instead of `/usr/sbin/sendmail`. Requires `--trust`.",
            json!({ "type": "string", "pattern": "^/" }),
        ),
        _ => json!({}),
    }
}

fn ignored(key: &str) -> Value {
    match key {
        "path" => said("Path or glob pattern.", json!({ "type": "string", "pattern": "^/" })),
        "step" => said("`recipe` or `recipe/step`. Globs are allowed.", text()),
        "why" => said("Reason, shown in the report.", json!({ "type": "string", "minLength": 1 })),
        "until" => said("Last day on which the rule is effective.", json!({ "type": "string", "format": "date" })),
        _ => json!({}),
    }
}

fn connect() -> Value {
    // The parser accepts `address` only to report where it belongs.
    let keys: Vec<&str> = CONNECT_KEYS.into_iter().filter(|key| *key != "address").collect();
    object(&keys, connect_key, &[])
}

fn connect_key(key: &str) -> Value {
    match key {
        "user" => said("User to log in as.", text()),
        "identity" => said("Private key: an absolute path, below `~/`, or relative to the inventory.", text()),
        "port" => said("SSH port.", json!({ "type": "integer", "minimum": 1, "maximum": 65535 })),
        "config" => said("ssh configuration file (`ssh -F`).", text()),
        "known_hosts" => said("File with known host keys.", text()),
        "jump" => said("Jump hosts, first hop first.", json!({ "anyOf": [text(), texts()] })),
        "host_key" => said("How to handle an unknown host key.", json!({ "enum": ["strict", "accept_new"] })),
        "sudo" => said(
            "Use sudo to become root, optionally with a password.",
            json!({ "anyOf": [
                { "type": "boolean" },
                { "type": "object", "properties": { "password": secret() }, "required": ["password"], "additionalProperties": false },
            ] }),
        ),
        "transport" => said("Transport to use. Default: `ssh`.", json!({ "enum": ["ssh", "local", "sandbox"] })),
        "command" => said("Program that runs a shell on its stdin. Requires `--trust`.", texts()),
        "hardware" => said("Board that a sandbox simulates.", json!({ "enum": BOARDS.map(|board| board.name) })),
        "timeout" => said("Connection timeout.", duration()),
        "keep" => said("How long to keep a session open for the next run.", duration()),
        _ => json!({}),
    }
}

fn secret() -> Value {
    json!({
        "description": "Source of a secret: an environment variable or a file.",
        "type": "object",
        "properties": { "env": text(), "file": text() },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": false,
    })
}

fn recipe(key: &str) -> Value {
    match key {
        "recipe" => said("Name of the recipe.", json!({ "type": "string", "pattern": LABEL })),
        "summary" => said("One-line summary.", text()),
        "params" => said("Typed parameters.", params()),
        "needs" => said("Dependencies that must succeed before any step of the recipe.", edges()),
        "after" => said("Recipes and steps that run before the recipe; their success is not required.", edges()),
        "during" => during(),
        "rules" => said(
            "Conditions on parameters and facts.",
            list_of(object(&super::recipe::RULE, rule, &["require", "else"])),
        ),
        "steps" => said("Steps, in execution order.", list_of(step())),
        "verify" => said(
            "Checks that must pass once the recipe is applied.",
            list_of(object(&super::recipe::VERIFY, judged, &["name"])),
        ),
        "fails_as" => said(
            "Known failure messages of programs, with their causes.",
            list_of(object(&["text", "cause"], fails_as, &["text", "cause"])),
        ),
        "uses" => said("Recipes that a stack uses.", list_of(object(&["recipe", "when", "with"], used, &["recipe"]))),
        _ => json!({}),
    }
}

fn during() -> Value {
    said("Requirements while other recipes change.", map_of(object(&["stopped", "unloaded"], needed, &[])))
}

fn needed(key: &str) -> Value {
    match key {
        "stopped" => said("Units that must be stopped.", texts()),
        "unloaded" => said("Kernel modules that must be unloaded.", texts()),
        _ => json!({}),
    }
}

fn params() -> Value {
    let param = object(&["type", "of", "keys", "values", "default", "doc"], param, &["type"]);
    json!({ "type": "object", "propertyNames": { "pattern": IDENTIFIER }, "additionalProperties": param })
}

fn param(key: &str) -> Value {
    match key {
        "type" => said("Type of the parameter.", json!({ "enum": TYPES })),
        "of" => {
            let types: Vec<&str> = TYPES.iter().copied().chain(["any"]).collect();
            said("Type of the elements of a list or map. Default: text.", json!({ "enum": types }))
        }
        "keys" => said("Type of the keys of a map. Default: text.", json!({ "enum": KEY_TYPES })),
        "values" => said("Allowed values of an enum. Quote `on`, `off`, `yes` and `no`.", texts()),
        "default" => said("Default value.", json!({})),
        "doc" => said("Description.", text()),
        _ => json!({}),
    }
}

fn rule(key: &str) -> Value {
    match key {
        "when" => said("Expression: whether the rule applies.", text()),
        "require" => said("Expression that must be true.", text()),
        "else" => said("Message if it is false. Plain text.", text()),
        "class" => said(
            "Why a host that breaks the rule is blocked. `warning` does not block.",
            json!({ "enum": ["rule", "hardware", "host", "warning"] }),
        ),
        "scope" => realm(),
        _ => json!({}),
    }
}

fn realm() -> Value {
    said("Evaluate it on each host or on the cluster. Default: `host`.", json!({ "enum": ["host", "cluster"] }))
}

fn named(key: &str) -> Value {
    match key {
        "api_version" => said("`v1`, `apps/v1`.", text()),
        "kind" => said("Kind of the objects.", text()),
        "namespace" => said("Namespace. Default: all namespaces.", text()),
        "name" => said("Name of the object.", text()),
        "labels" => said("Labels that the objects must have.", map_of(text())),
        _ => json!({}),
    }
}

fn fails_as(key: &str) -> Value {
    match key {
        "text" => said("Part of a line that the program prints. `…` matches any text.", text()),
        "cause" => said("Cause of the failure, and how to fix it.", text()),
        _ => json!({}),
    }
}

fn judged(key: &str) -> Value {
    match key {
        "name" => said("Name of the check.", text()),
        "when" => said("Expression: whether the check applies.", text()),
        "scope" => realm(),
        "object" => said(
            "One object of the cluster, which `expect` reads as `object`.",
            object(&super::recipe::OBJECT, named, &["api_version", "kind", "name"]),
        ),
        "objects" => said(
            "Objects of the cluster, which `expect` reads as the list `objects`.",
            object(&super::recipe::OBJECTS, named, &["api_version", "kind"]),
        ),
        "shows" => said("Template that shows the relevant values if the check fails.", text()),
        "within" => said("How long an apply waits for the check to pass on the cluster.", duration()),
        "expect" => said("Expression over facts.", text()),
        "check" => said("Read-only command that must exit 0.", text()),
        "level" => said("Verification level.", json!({ "enum": ["L0", "L1", "L2", "L3", "L4", "L5"] })),
        "by" => said("What makes the change effective.", list_of(text())),
        _ => json!({}),
    }
}

fn used(key: &str) -> Value {
    match key {
        "recipe" => said("Name of a recipe.", text()),
        "when" => said("Expression: whether the recipe is used.", text()),
        "with" => said("Parameters to pass.", vars()),
        _ => json!({}),
    }
}

/// Returns the schema of edges: one edge, a list, or a map from edges to barriers.
fn edges() -> Value {
    let long = object(&["recipe", "step", "phase", "optional", "of", "least"], edge, &[]);
    let barrier = object(&["of", "least", "phase"], edge, &[]);
    json!({ "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "anyOf": [{ "type": "string" }, long] } },
        { "type": "object", "additionalProperties": or_nothing(barrier) },
    ] })
}

fn edge(key: &str) -> Value {
    match key {
        "recipe" => said("Name of a recipe.", text()),
        "step" => said("One of its steps. Default: all steps.", text()),
        "phase" => said("Phase to wait for.", json!({ "enum": StepPhase::ALL.map(StepPhase::name) })),
        "optional" => said("Ignore the edge if that recipe is not applied (`name?`).", json!({ "type": "boolean" })),
        "of" => said("Makes the edge a barrier across hosts.", json!({ "enum": ["selected"] })),
        "least" => said("How many of the hosts must have reached the phase.", share()),
        _ => json!({}),
    }
}

/// Returns the schema of a step: common keys, and exactly one resource.
fn step() -> Value {
    let mut schema = object(&STEP_KEYS, step_key, &["name"]);
    for kind in kinds() {
        let mut fields = kind_schema(kind);
        if let Some(fields) = fields.as_object_mut() {
            fields.remove("$schema");
        }
        schema["properties"][kind.name] = fields;
    }
    schema["oneOf"] = kinds().iter().map(|kind| json!({ "required": [kind.name] })).collect();
    schema
}

fn step_key(key: &str) -> Value {
    match key {
        "name" => {
            said("Short name without `/`, `@`, brackets and braces.", json!({ "type": "string", "maxLength": 100 }))
        }
        "when" => said("Expression: whether the step applies.", text()),
        "otherwise" => said("Remove the resource if `when` is false.", json!({ "enum": ["absent"] })),
        "each" => said("Expression: repeat the step for each item of a list or map.", text()),
        "key" => said("Expression: name of each repetition.", text()),
        "needs" => said("Dependencies that must succeed before the step.", edges()),
        "after" => said("Recipes and steps that run before the step; their success is not required.", edges()),
        "effective" => {
            said("How the step takes effect, and how to verify that.", object(&["by", "expect", "check"], judged, &[]))
        }
        "during" => during(),
        "restart_on" => {
            said("Steps whose change restarts this service, reboots the host, or reruns this command's check.", texts())
        }
        "provides" => {
            said("Resources that it provides.", object(&["files", "units", "users", "packages"], provided, &[]))
        }
        "export" => {
            said("Values that other steps read.", map_of(object(&["read", "stdout", "value", "secret"], export, &[])))
        }
        "disruption" => said("Maximum disruption class.", json!({ "enum": ["D0", "D1", "D2", "D3"] })),
        "scope" => said("Where the step runs.", json!({ "enum": StepScope::ALL.map(StepScope::name) })),
        "level" => said("Verification level of the step.", json!({ "enum": ["L0", "L1", "L2", "L3", "L4", "L5"] })),
        "timeout" => said("Timeout of its commands.", duration()),
        "retries" => said(
            "Number of retries of a failed change, 2 s apart; not of `long` commands.",
            json!({ "type": "integer", "minimum": 0, "maximum": 10 }),
        ),
        "long" => said("Keep the command running if the connection is lost.", json!({ "type": "boolean" })),
        _ => json!({}),
    }
}

fn provided(key: &str) -> Value {
    said(&format!("Names of {key}."), texts())
}

fn export(key: &str) -> Value {
    match key {
        "read" => said("Read-only command whose output is the value.", text()),
        "stdout" => said("Use the output of the step as the value.", json!({ "type": "boolean" })),
        "value" => said("Expression over facts that is the value.", text()),
        "secret" => said("Whether the value is secret.", json!({ "type": "boolean" })),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every key has a description, so that new keys of the parsers are documented here.
    fn described(schema: &Value, path: &str) {
        let Some(properties) = schema["properties"].as_object() else { return };
        for (key, property) in properties {
            assert!(property["description"].is_string(), "{path}.{key} has no description");
            described(property, &format!("{path}.{key}"));
        }
    }

    #[test]
    fn every_key_is_described() {
        described(&inventory_schema(), "inventory");
        described(&recipe_schema(), "recipe");
        described(&step(), "step");
    }

    #[test]
    fn a_step_has_the_fields_of_every_kind() {
        let step = step();
        for kind in kinds() {
            assert_eq!(step["properties"][kind.name]["additionalProperties"], json!(false), "{}", kind.name);
        }
        assert_eq!(step["oneOf"].as_array().unwrap().len(), kinds().len());
    }
}
