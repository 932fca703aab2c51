//! DingTalk: a custom bot takes plain text. `at` is empty, so no user is mentioned.

use super::message::{MessageLimit, NotifyPayload, count_json_bytes, fit_message};
use crate::drift::DriftNotice;
use serde_json::json;

/// Maximum bytes of the text. A message has at most 20,000 bytes, including the JSON around the text.
const MAX_MESSAGE_BYTES: usize = 19_500;

pub(super) fn render(notice: &DriftNotice) -> NotifyPayload {
    let message =
        fit_message(notice, &MessageLimit { limit: MAX_MESSAGE_BYTES, size: count_json_bytes, escape: str::to_owned });
    let body = json!({ "msgtype": "text", "text": { "content": message.to_text() }, "at": { "isAtAll": false } });
    NotifyPayload { body: body.to_string(), left_out: message.left_out }
}
