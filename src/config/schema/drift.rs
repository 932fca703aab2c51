//! The schema of `drift:`, with the recipients of notifications.

use super::parts::{list_schema, object_schema, secret_schema, text_schema, with_description};
use crate::config::inventory::{IGNORE_KEYS, notify, smtp};
use crate::model::{SmtpEncryption, Value};
use serde_json::json;

pub(super) fn drift_property(key: &str) -> Value {
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
