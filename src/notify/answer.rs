//! What services answer: some say 200 and that they refuse in one breath.

use super::Failed;
use serde_json::Value;

/// How a service says that it took a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// By its status alone.
    Status,
    /// By the text `ok`, or `{"ok": true}`.
    Ok,
    /// By `code` (of old, `StatusCode`) 0: Feishu.
    Code,
    /// By `errcode` 0: DingTalk and WeCom.
    Errcode,
}

/// What a service says when it is too busy for the moment.
const BUSY: i64 = -1;

impl Manner {
    /// Judges the body of an answer with a status of success.
    pub(super) fn judge(self, body: &str) -> Result<(), Failed> {
        match self {
            Self::Status => Ok(()),
            Self::Ok if body.trim() == "ok" => Ok(()),
            Self::Ok => match read(body) {
                Some(answer) if answer["ok"] == true => Ok(()),
                Some(answer) => Err(Failed::never(said(answer["error"].as_str().unwrap_or(body)))),
                None => Err(Failed::never(said(body))),
            },
            Self::Code => coded(body, &["code", "StatusCode"], &["msg", "StatusMessage"]),
            Self::Errcode => coded(body, &["errcode"], &["errmsg"]),
        }
    }
}

fn read(body: &str) -> Option<Value> {
    serde_json::from_str::<Value>(body).ok().filter(Value::is_object)
}

fn coded(body: &str, codes: &[&str], messages: &[&str]) -> Result<(), Failed> {
    let answer = read(body).ok_or_else(|| Failed::never(said(body)))?;
    let code = codes.iter().find_map(|key| answer[*key].as_i64()).ok_or_else(|| Failed::never(said(body)))?;
    let message = messages.iter().find_map(|key| answer[*key].as_str()).unwrap_or_default();
    let why = said(&format!("{code} {message}"));
    match code {
        0 => Ok(()),
        BUSY => Err(Failed::soon(why)),
        _ => Err(Failed::never(why)),
    }
}

/// Returns why a message was not taken, by what a service said.
fn said(body: &str) -> String {
    match short(body) {
        Some(text) => format!("the service refused it: {text}"),
        None => "the service did not say that it took it".to_owned(),
    }
}

/// Returns the beginning of an answer, if it says anything.
pub(super) fn short(body: &str) -> Option<String> {
    const SHOWN: usize = 200;
    Some(body.trim().chars().take(SHOWN).collect()).filter(|text: &String| !text.is_empty())
}
