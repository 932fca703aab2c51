//! The schema of connection settings.

use super::parts::{duration_schema, object_schema, secret_schema, text_list_schema, text_schema, with_description};
use crate::config::inventory::CONNECT_KEYS;
use crate::model::{BOARDS, Value};
use serde_json::json;

pub(super) fn connect_schema() -> Value {
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
