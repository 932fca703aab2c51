//! JSON Schema (draft 2020-12) of what people write, for editors. Keys come from the lists that the readers use.

use super::inventory::notify;
use super::inventory::{
    CONNECT_KEYS, DRAIN_KEYS, DRIFT_KEYS, IGNORE_KEYS, KEYS as INVENTORY_KEYS, KUBERNETES_KEYS, NODE_KEYS, ROLLOUT_KEYS,
};
use super::recipe::{COMMON as STEP_KEYS, KEY_TYPES, KEYS as RECIPE_KEYS, TYPES};
use super::rollout::Reboots;
use crate::model::{DURATION_PATTERN, Phase, Scope, Value};
use crate::resource::{kinds, schema::kind_schema};
use crate::transport::BOARDS;
use serde_json::{Map, json};

/// Names that templates read with a dot.
const IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// Names that become names of files.
const LABEL: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";

/// Returns the schema of an inventory.
pub fn inventory_schema() -> Value {
    root(
        "inventory",
        "Which hosts there are, and what must be true on them.",
        object(&INVENTORY_KEYS, inventory, &["cluster"]),
    )
}

/// Returns the schema of a recipe or stack, the fields of every kind of resource included.
pub fn recipe_schema() -> Value {
    let mut schema = object(&RECIPE_KEYS, recipe, &["recipe"]);
    schema["anyOf"] = json!([{ "required": ["steps"] }, { "required": ["verify"] }, { "required": ["uses"] }]);
    root("recipe", "How one thing is made true, and how that is proven.", schema)
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

/// A closed map with the keys of a reader.
fn object(keys: &[&str], of: fn(&str) -> Value, required: &[&str]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), of(key))).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn said(description: &str, mut schema: Value) -> Value {
    schema["description"] = json!(description);
    schema
}

/// Plain values keep what was typed, so that a number is text where text is wanted.
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
            said("Name of the cluster; names the state folder.", json!({ "type": "string", "pattern": LABEL }))
        }
        "connect" => said("How hosts are reached; groups and hosts may say it too.", connect()),
        "hosts" => said(
            "Hosts by name, or a list of names. Ranges unfold: `node-[1:3]`.",
            json!({ "anyOf": [map_of(or_nothing(object(&["address", "vars", "connect"], host, &[]))), texts()] }),
        ),
        "groups" => said(
            "Sets of hosts, with variables and connection settings.",
            map_of(or_nothing(object(&["hosts", "groups", "vars", "connect"], group, &[]))),
        ),
        "recipes" => said("Folders of recipes; `recipes/` beside the inventory without it.", texts()),
        "apply" => said(
            "What is declared where.",
            list_of(object(&["recipe", "on", "with", "ensure"], entry, &["recipe", "on"])),
        ),
        "rollout" => said("In which portions changes go out.", object(&ROLLOUT_KEYS, rollout, &[])),
        "drift" => said("What drift passes over, and how long it remembers.", object(&DRIFT_KEYS, drift, &[])),
        "kubernetes" => said(
            "Which cluster's API belongs to the hosts. Neither the environment nor a current context is asked.",
            object(&KUBERNETES_KEYS, kubernetes, &["kubeconfig", "context"]),
        ),
        _ => json!({}),
    }
}

fn kubernetes(key: &str) -> Value {
    match key {
        "kubeconfig" => said(
            "Its kubeconfig: absolute, under `~/`, or from the inventory's folder; with `via` absolute, on that host.",
            text(),
        ),
        "context" => said("The context of that file.", text()),
        "via" => said("A host of the inventory: its session leads to the API, and the kubeconfig lies there.", text()),
        "namespace" => {
            said("The namespace in which forge keeps its lock and records. Default `forge-provisioner`.", text())
        }
        _ => json!({}),
    }
}

fn host(key: &str) -> Value {
    match key {
        "address" => said("Name, address or alias of ~/.ssh/config; the host's own name without it.", text()),
        "vars" => said("Variables of this host; they feed parameters of the same name.", vars()),
        "connect" => said("How this host is reached.", connect()),
        _ => json!({}),
    }
}

fn group(key: &str) -> Value {
    match key {
        "hosts" => said("Patterns over names of hosts: `node-*`, `node-[1:3]`.", texts()),
        "groups" => said("Groups inside this one.", texts()),
        "vars" => said("Variables of its hosts; those of inner groups win.", vars()),
        "connect" => said("How its hosts are reached.", connect()),
        _ => json!({}),
    }
}

fn entry(key: &str) -> Value {
    match key {
        "recipe" => said("Name of a recipe.", text()),
        "on" => said("Selector: `all`, `gpu`, `gpu:&rack_a:!canary`.", json!({ "anyOf": [text(), texts()] })),
        "with" => said("Parameters.", vars()),
        "ensure" => said("Whether it is there or removed.", json!({ "enum": ["present", "absent"] })),
        _ => json!({}),
    }
}

fn rollout(key: &str) -> Value {
    match key {
        "canary" => said("How many hosts receive all their changes first.", share()),
        "max_failed" => said("How many hosts may fail before no new one begins.", share()),
        "max_unavailable" => said("How many hosts may be out of service at once; a quarter without it.", share()),
        "max_restarting" => said("How many hosts may restart one service at once.", share()),
        "quorum" => said("Groups of which no two hosts may be out of service at once.", texts()),
        "reboot" => said(
            "Whether hosts reboot where the plan says so; `never` without it.",
            json!({ "enum": Reboots::ALL.map(Reboots::name) }),
        ),
        "reboot_timeout" => said("How long a host may take to come back; 30m without it.", duration()),
        "hours" => said(
            "When windows may open, by the clock of the machine that forge runs on: \"22:00-05:00\".",
            json!({ "type": "string", "pattern": "^[0-9]{2}:[0-9]{2} *- *[0-9]{2}:[0-9]{2}$" }),
        ),
        "busy" => said("What happens where somebody holds the host's devices.", object(&["wait"], rollout, &["wait"])),
        "wait" => said("How long a window waits for them.", duration()),
        "drain" => {
            let mut who = object(&DRAIN_KEYS, rollout, &[]);
            who["minProperties"] = json!(1);
            said("Who is asked to send no more work.", who)
        }
        "slurm" => said("The group whose hosts are nodes of Slurm.", text()),
        "kubernetes" => said(
            "The group whose hosts are nodes of the cluster that `kubernetes` names.",
            json!({ "anyOf": [text(), object(&NODE_KEYS, node_drain, &["group"])] }),
        ),
        _ => json!({}),
    }
}

fn node_drain(key: &str) -> Value {
    let truth = || json!({ "type": "boolean" });
    match key {
        "group" => said("The group whose hosts are nodes.", text()),
        "timeout" => said("How long pods may take to leave; 10m without it.", duration()),
        "grace" => said("How long a pod may take to end; what the pod says without it.", duration()),
        "delete_emptydir_data" => said("Whether pods with volumes `emptyDir` go; their data is lost.", truth()),
        "delete_unmanaged" => said("Whether pods go that nothing makes anew.", truth()),
        "returns" => said(
            "What a node must offer to pods before it is given back: so much of each resource, or `capacity`.",
            map_of(json!({ "type": ["integer", "string"] })),
        ),
        "returns_within" => said("How long it may take to do so; 10m without it.", duration()),
        _ => json!({}),
    }
}

fn drift(key: &str) -> Value {
    match key {
        "ignore" => said("What drift passes over.", list_of(object(&IGNORE_KEYS, ignored, &["why", "until"]))),
        "keep" => said(
            "Days that history is kept; 90 without it.",
            json!({ "type": "integer", "minimum": 1, "maximum": 3650 }),
        ),
        "unconfined" => said(
            "Whether a recipe's own checks run also where they cannot be kept from writing.",
            json!({ "type": "boolean" }),
        ),
        "first_seen" => said(
            "Who keeps since when findings are there: `controller`, or also each `host`, on which drift then writes.",
            json!({ "enum": ["controller", "host"] }),
        ),
        "notify" => said("Who is told when what is found changes.", list_of(recipient())),
        "outliers" => said(
            "Whether hosts that are alike are compared: `show` tells what few of them have, `count` takes it as found.",
            json!({ "enum": ["show", "count"] }),
        ),
        _ => json!({}),
    }
}

/// Exactly one service, by its key.
fn recipient() -> Value {
    let mut entry = object(&notify::KEYS, recipient_key, &[]);
    let one: Vec<Value> = notify::SERVICES.iter().map(|service| json!({ "required": [service] })).collect();
    entry["oneOf"] = one.into();
    entry
}

fn recipient_key(key: &str) -> Value {
    match key {
        "name" => said(
            "What it is remembered by; the service without it.",
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$" }),
        ),
        "webhook" => said("A notice as JSON, by POST.", object(&notify::WEBHOOK_KEYS, service_key, &["url"])),
        "slack" => said("An incoming webhook of Slack.", object(&notify::CHAT_KEYS, service_key, &["url"])),
        "feishu" => said("A custom bot of Feishu (Lark).", object(&notify::SIGNED_KEYS, service_key, &["url"])),
        "dingtalk" => said("A custom bot of DingTalk.", object(&notify::SIGNED_KEYS, service_key, &["url"])),
        "wecom" => said("A group bot of WeCom.", object(&notify::CHAT_KEYS, service_key, &["url"])),
        "email" => said("Mail, handed to `sendmail -t`.", object(&notify::EMAIL_KEYS, service_key, &["to"])),
        _ => json!({}),
    }
}

fn service_key(key: &str) -> Value {
    match key {
        "url" => said("Where it is sent to: who knows it can write there, so it is a secret.", secret()),
        "token" => said("Sent as `Authorization: Bearer`.", secret()),
        "secret" => said("The key that messages are signed with.", secret()),
        "to" => said("Addresses.", json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })),
        "from" => said("The sender's address.", text()),
        "sendmail" => said(
            "Another program than `/usr/sbin/sendmail`; takes `--trust`.",
            json!({ "type": "string", "pattern": "^/" }),
        ),
        _ => json!({}),
    }
}

fn ignored(key: &str) -> Value {
    match key {
        "path" => said("A path, or a glob over paths.", json!({ "type": "string", "pattern": "^/" })),
        "step" => said("`recipe` or `recipe/step`, with globs.", text()),
        "why" => said("Why; the report repeats it.", json!({ "type": "string", "minLength": 1 })),
        "until" => said("The last day on which it holds.", json!({ "type": "string", "format": "date" })),
        _ => json!({}),
    }
}

fn connect() -> Value {
    // `address` is a key that is only read to say where it belongs.
    let keys: Vec<&str> = CONNECT_KEYS.into_iter().filter(|key| *key != "address").collect();
    object(&keys, connect_key, &[])
}

fn connect_key(key: &str) -> Value {
    match key {
        "user" => said("Who logs in.", text()),
        "identity" => said("Private key; the path begins at `~`, `/` or the inventory's folder.", text()),
        "port" => said("Port of ssh.", json!({ "type": "integer", "minimum": 1, "maximum": 65535 })),
        "config" => said("A file for `ssh -F`.", text()),
        "known_hosts" => said("Keys of hosts.", text()),
        "jump" => said("Jump hosts, first hop first.", json!({ "anyOf": [text(), texts()] })),
        "host_key" => said("What happens with an unknown key.", json!({ "enum": ["strict", "accept_new"] })),
        "sudo" => said(
            "How another user than root becomes root.",
            json!({ "anyOf": [
                { "type": "boolean" },
                { "type": "object", "properties": { "password": secret() }, "required": ["password"], "additionalProperties": false },
            ] }),
        ),
        "transport" => said("Another way than ssh.", json!({ "enum": ["ssh", "local", "sandbox"] })),
        "command" => said("A program that gives a shell on stdin; needs --trust.", texts()),
        "hardware" => said("The board whose cards a sandbox shows.", json!({ "enum": BOARDS.map(|board| board.name) })),
        "timeout" => said("Longest wait for a connection.", duration()),
        "keep" => said("How long a session is kept for the next run.", duration()),
        _ => json!({}),
    }
}

fn secret() -> Value {
    json!({
        "description": "Where a secret is read from: it is never written down.",
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
        "summary" => said("What it makes true, in one line.", text()),
        "params" => said("Typed parameters.", params()),
        "needs" => said("What every step of the recipe waits for, with success.", edges()),
        "after" => said("What every step of the recipe comes after.", edges()),
        "during" => during(),
        "rules" => said(
            "What must hold for parameters and facts.",
            list_of(object(&super::recipe::RULE, rule, &["require", "else"])),
        ),
        "steps" => said("Steps, in the order in which they run.", list_of(step())),
        "verify" => said(
            "What must be seen once the recipe is applied.",
            list_of(object(&super::recipe::VERIFY, judged, &["name"])),
        ),
        "fails_as" => said(
            "What programs print when they fail, and why.",
            list_of(object(&["text", "cause"], fails_as, &["text", "cause"])),
        ),
        "uses" => said("Recipes that a stack uses.", list_of(object(&["recipe", "when", "with"], used, &["recipe"]))),
        _ => json!({}),
    }
}

fn during() -> Value {
    said("What the recipe needs while others change.", map_of(object(&["stopped", "unloaded"], needed, &[])))
}

fn needed(key: &str) -> Value {
    match key {
        "stopped" => said("Units that must not run meanwhile.", texts()),
        "unloaded" => said("Kernel modules that must not be loaded meanwhile.", texts()),
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
            said("Type of the elements of a list or map; text without it.", json!({ "enum": types }))
        }
        "keys" => said("Type of the keys of a map; text without it.", json!({ "enum": KEY_TYPES })),
        "values" => said("What an enum can be. Quote `on`, `off`, `yes` and `no` for other readers.", texts()),
        "default" => said("Its value where nothing else gives one.", json!({})),
        "doc" => said("What it is for.", text()),
        _ => json!({}),
    }
}

fn rule(key: &str) -> Value {
    match key {
        "when" => said("Expression: where the rule counts.", text()),
        "require" => said("Expression that must hold.", text()),
        "else" => said("What is said where it does not; plain text.", text()),
        "class" => said(
            "How a host is blocked that it does not hold for; `warning` blocks nothing.",
            json!({ "enum": ["rule", "hardware", "host", "warning"] }),
        ),
        "scope" => realm(),
        _ => json!({}),
    }
}

fn realm() -> Value {
    said("Whether each host is judged, as without it, or the cluster.", json!({ "enum": ["host", "cluster"] }))
}

fn named(key: &str) -> Value {
    match key {
        "api_version" => said("`v1`, `apps/v1`.", text()),
        "kind" => said("Kind of the objects.", text()),
        "namespace" => said("Where they stand; all namespaces without it.", text()),
        "name" => said("Name of the object.", text()),
        "labels" => said("Labels that they have.", map_of(text())),
        _ => json!({}),
    }
}

fn fails_as(key: &str) -> Value {
    match key {
        "text" => said("What a program prints, a part of one line; `…` stands for anything.", text()),
        "cause" => said("Why it prints that, and what to do.", text()),
        _ => json!({}),
    }
}

fn judged(key: &str) -> Value {
    match key {
        "name" => said("What is proven.", text()),
        "when" => said("Expression: where it counts.", text()),
        "scope" => realm(),
        "object" => said(
            "One object of the cluster, which `expect` reads as `object`.",
            object(&super::recipe::OBJECT, named, &["api_version", "kind", "name"]),
        ),
        "objects" => said(
            "Objects of the cluster, which `expect` reads as the list `objects`.",
            object(&super::recipe::OBJECTS, named, &["api_version", "kind"]),
        ),
        "shows" => said("Text with the values that matter, said where it does not hold.", text()),
        "within" => said("How long an apply waits until it holds on the cluster.", duration()),
        "expect" => said("Expression over facts.", text()),
        "check" => said("Read-only command that must exit 0.", text()),
        "level" => said("How deep it goes.", json!({ "enum": ["L0", "L1", "L2", "L3", "L4", "L5"] })),
        "by" => said("What brings it into force.", list_of(text())),
        _ => json!({}),
    }
}

fn used(key: &str) -> Value {
    match key {
        "recipe" => said("Name of a recipe.", text()),
        "when" => said("Expression: where it is used.", text()),
        "with" => said("Parameters that are passed on.", vars()),
        _ => json!({}),
    }
}

/// Edges as a list, as a map to barriers, or one alone.
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
        "step" => said("One of its steps; all without it.", text()),
        "phase" => said("What it is waited for.", json!({ "enum": Phase::ALL.map(Phase::name) })),
        "optional" => {
            said("Whether it holds only where that recipe is applied: `name?`.", json!({ "type": "boolean" }))
        }
        "of" => said("Makes it a barrier between hosts.", json!({ "enum": ["selected"] })),
        "least" => said("How many of the hosts must have got there.", share()),
        _ => json!({}),
    }
}

/// Common keys, and exactly one resource.
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
        "when" => said("Expression: where the step counts.", text()),
        "otherwise" => said("What happens where `when` is false.", json!({ "enum": ["absent"] })),
        "each" => said("Expression: one turn per item of a list or map.", text()),
        "key" => said("Expression: the name of a turn.", text()),
        "needs" => said("What it waits for, with success.", edges()),
        "after" => said("What it comes after.", edges()),
        "effective" => {
            said("How it gets into force, and how that is seen.", object(&["by", "expect", "check"], judged, &[]))
        }
        "during" => during(),
        "restart_on" => said(
            "Steps whose change restarts this service, reboots the host, or has this command's check answered anew.",
            texts(),
        ),
        "provides" => {
            said("What later steps may assume.", object(&["files", "units", "users", "packages"], provided, &[]))
        }
        "export" => {
            said("Values that other steps read.", map_of(object(&["read", "stdout", "value", "secret"], export, &[])))
        }
        "disruption" => said("What it disturbs at most.", json!({ "enum": ["D0", "D1", "D2", "D3"] })),
        "scope" => said("Where it runs.", json!({ "enum": Scope::ALL.map(Scope::name) })),
        "level" => said("How deep its proof goes.", json!({ "enum": ["L0", "L1", "L2", "L3", "L4", "L5"] })),
        "timeout" => said("Longest time of its commands.", duration()),
        "retries" => said(
            "How often reading its result is tried again.",
            json!({ "type": "integer", "minimum": 0, "maximum": 10 }),
        ),
        "long" => said("Whether it outlives the link.", json!({ "type": "boolean" })),
        _ => json!({}),
    }
}

fn provided(key: &str) -> Value {
    said(&format!("Names of {key}."), texts())
}

fn export(key: &str) -> Value {
    match key {
        "read" => said("Read-only command whose output is the value.", text()),
        "stdout" => said("Take what the step itself prints.", json!({ "type": "boolean" })),
        "value" => said("Expression over facts that is the value.", text()),
        "secret" => said("Whether the value is secret.", json!({ "type": "boolean" })),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that a reader learns has no description here until somebody gives it one.
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
