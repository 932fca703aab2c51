//! Digests of declarations: a host's records and starts of services name them.

use super::canonical_json::{digest_text, to_canonical_json};
use crate::model::SecretStore;
use crate::resource::Resource;
use secrecy::ExposeSecret;

/// Returns the digest of what a resource declares. If that contains a secret, the digest is keyed with the host's key.
pub fn digest_desired(resource: &dyn Resource, secrets: &SecretStore, key: Option<&str>) -> String {
    digest_with_key(&to_canonical_json(&resource.desired_value()), secrets, key)
}

/// Returns the digest that a resource which is to be absent would have if it were to exist.
pub(super) fn digest_presence(resource: &dyn Resource, secrets: &SecretStore, key: Option<&str>) -> String {
    let mut value = resource.desired_value();
    if let Some(absent) = value.get_mut("absent") {
        *absent = false.into();
    }
    digest_with_key(&to_canonical_json(&value), secrets, key)
}

/// Returns the digest of a text; keyed if it contains a secret.
pub(super) fn digest_with_key(text: &str, secrets: &SecretStore, key: Option<&str>) -> String {
    if !SecretStore::has_placeholder(text) {
        return digest_text(text);
    }
    let revealed = secrets.reveal_placeholders(text);
    let inner = digest_text(&format!("{}{}", key.unwrap_or_default(), revealed.expose_secret()));
    format!("keyed:{}", digest_text(&format!("{}{inner}", key.unwrap_or_default())))
}
