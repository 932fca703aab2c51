//! Responses of services. Some report errors in the body of a response with status 200.

use super::attempt::DeliveryAttemptError;
use serde_json::Value;

/// How a service confirms that it accepted a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFormat {
    /// By the HTTP status alone.
    Status,
    /// By the text `ok`, or `{"ok": true}`.
    Ok,
    /// By `code` 0, formerly `StatusCode`: Feishu.
    Code,
    /// By `errcode` 0: DingTalk and WeCom.
    Errcode,
}

/// The code of a service that is temporarily busy.
const BUSY_ERRCODE: i64 = -1;

impl ResponseFormat {
    /// Evaluates the body of a response with a success status.
    pub(super) fn check_body(self, body: &str) -> Result<(), DeliveryAttemptError> {
        match self {
            Self::Status => Ok(()),
            Self::Ok if body.trim() == "ok" => Ok(()),
            Self::Ok => match parse_json_object(body) {
                Some(answer) if answer["ok"] == true => Ok(()),
                Some(answer) => {
                    Err(DeliveryAttemptError::permanent(describe_refusal(answer["error"].as_str().unwrap_or(body))))
                }
                None => Err(DeliveryAttemptError::permanent(describe_refusal(body))),
            },
            Self::Code => check_response_code(body, &["code", "StatusCode"], &["msg", "StatusMessage"]),
            Self::Errcode => check_response_code(body, &["errcode"], &["errmsg"]),
        }
    }
}

fn parse_json_object(body: &str) -> Option<Value> {
    serde_json::from_str::<Value>(body).ok().filter(Value::is_object)
}

fn check_response_code(body: &str, codes: &[&str], messages: &[&str]) -> Result<(), DeliveryAttemptError> {
    let answer = parse_json_object(body).ok_or_else(|| DeliveryAttemptError::permanent(describe_refusal(body)))?;
    let code = codes
        .iter()
        .find_map(|key| answer[*key].as_i64())
        .ok_or_else(|| DeliveryAttemptError::permanent(describe_refusal(body)))?;
    let message = messages.iter().find_map(|key| answer[*key].as_str()).unwrap_or_default();
    let why = describe_refusal(&format!("{code} {message}"));
    match code {
        0 => Ok(()),
        BUSY_ERRCODE => Err(DeliveryAttemptError::retryable(why)),
        _ => Err(DeliveryAttemptError::permanent(why)),
    }
}

/// Returns the reason why a message was not accepted, from the response.
fn describe_refusal(body: &str) -> String {
    match excerpt_body(body) {
        Some(text) => format!("the service rejected the message: {text}"),
        None => "the service did not confirm the message".to_owned(),
    }
}

/// Returns the beginning of a response, unless it is empty.
pub(super) fn excerpt_body(body: &str) -> Option<String> {
    const SHOWN: usize = 200;
    Some(body.trim().chars().take(SHOWN).collect()).filter(|text: &String| !text.is_empty())
}
