//! Signatures of messages in the formats of DingTalk and Feishu.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sha2::Sha256;

fn hmac_signature(key: &[u8], message: &[u8]) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(message);
    STANDARD.encode(mac.finalize().into_bytes())
}

/// Returns the address with timestamp and signature in the format of DingTalk.
pub fn sign_dingtalk_url(url: &SecretString, key: &SecretString, now: Timestamp) -> SecretString {
    let (url, key) = (url.expose_secret(), key.expose_secret());
    let time = now.as_millisecond();
    let sign = hmac_signature(key.as_bytes(), format!("{time}\n{key}").as_bytes());
    // These three base64 characters are reserved in URLs.
    let sign = sign.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let joint = if url.contains('?') { '&' } else { '?' };
    SecretString::from(format!("{url}{joint}timestamp={time}&sign={sign}"))
}

/// Returns the body with timestamp and signature in the format of Feishu: the signature of an empty message, with
/// timestamp and secret as the key.
pub fn sign_feishu_body(body: &str, key: &SecretString, now: Timestamp) -> String {
    let time = now.as_second().to_string();
    let sign = hmac_signature(format!("{time}\n{}", key.expose_secret()).as_bytes(), b"");
    match serde_json::from_str::<Value>(body) {
        Ok(Value::Object(mut map)) => {
            map.insert("timestamp".to_owned(), time.into());
            map.insert("sign".to_owned(), sign.into());
            Value::Object(map).to_string()
        }
        // Only an object can be signed. The service rejects other bodies.
        _ => body.to_owned(),
    }
}
