//! Feishu (Lark): a custom bot takes rich text. Its text nodes are plain, while `<at …>` in a text message would
//! mention users.

use super::message::{MessageLimit, NotifyPayload, count_json_bytes, fit_message, format_headline};
use crate::drift::DriftNotice;
use serde_json::{Value, json};

/// Maximum bytes of the lines. A request has at most 20 kB, including the JSON around the lines and the signature.
const MAX_MESSAGE_BYTES: usize = 19_000;

pub(super) fn render(notice: &DriftNotice) -> NotifyPayload {
    // Each line is a paragraph with a node: `[{"tag":"text","text":…}],`.
    let room =
        MessageLimit { limit: MAX_MESSAGE_BYTES, size: |line| count_json_bytes(line) + 30, escape: str::to_owned };
    let message = fit_message(notice, &room);
    let line = |line: &String| json!([{ "tag": "text", "text": line }]);
    let content: Vec<Value> = message.lines.iter().skip(1).map(line).collect();
    let body = json!({
        "msg_type": "post",
        "content": { "post": { "en_us": { "title": format_headline(notice), "content": content } } },
    });
    NotifyPayload { body: body.to_string(), left_out: message.left_out }
}
