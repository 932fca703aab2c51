//! Mail to a server by SMTP. Error messages do not contain the password.

use super::attempt::DeliveryAttemptError;
use super::response::excerpt_body;
use crate::artifact::{TLS_TRUST_HINT, error_chain, explain_tls_error};
use crate::model::{Sha256Digest, SmtpEncryption};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{AsyncSmtpTransport, Error};
use lettre::{Address, AsyncTransport, Tokio1Executor};
use secrecy::{ExposeSecret, SecretString};
use sha2::Digest;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A message for a mail server.
pub struct SmtpMessage {
    /// The name or address of the mail server; its certificate must be for this name.
    pub host: String,
    /// The TCP port of the mail server.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: SmtpEncryption,
    /// User and password.
    pub login: Option<(String, SecretString)>,
    /// The sender's address, `forge@example.org`.
    pub from: String,
    /// The recipients' addresses; at least one.
    pub to: Vec<String>,
    /// Headers and text.
    pub text: String,
}

impl SmtpMessage {
    pub(super) async fn try_deliver(&self, limit: Duration) -> Result<(), DeliveryAttemptError> {
        let sent = tokio::time::timeout(limit, self.send_mail()).await;
        sent.unwrap_or_else(|_| Err(DeliveryAttemptError::retryable(format!("`{}` timed out", self.host))))
    }

    async fn send_mail(&self) -> Result<(), DeliveryAttemptError> {
        if self.login.is_some() && !self.tls.protects_password(&self.host) {
            return Err(DeliveryAttemptError::permanent("its password would be sent without encryption"));
        }
        let envelope = self.build_envelope().map_err(DeliveryAttemptError::permanent)?;
        let transport = self.build_transport().map_err(|error| self.describe_error(&error))?;
        // SMTP ends lines with CRLF, and lettre escapes a leading `.` only after it.
        let text = self.text.replace("\r\n", "\n").replace('\n', "\r\n");
        transport.send_raw(&envelope, text.as_bytes()).await.map_err(|error| self.describe_error(&error))?;
        Ok(())
    }

    fn build_envelope(&self) -> Result<Envelope, String> {
        let parse = |text: &String| text.parse::<Address>().map_err(|_| format!("`{text}` is not an email address"));
        let to = self.to.iter().map(parse).collect::<Result<_, _>>()?;
        Envelope::new(Some(parse(&self.from)?), to).map_err(|error| error.to_string())
    }

    fn build_transport(&self) -> Result<AsyncSmtpTransport<Tokio1Executor>, Error> {
        let certificates = || TlsParameters::new(self.host.clone());
        let tls = match self.tls {
            SmtpEncryption::StartTls => Tls::Required(certificates()?),
            SmtpEncryption::Implicit => Tls::Wrapper(certificates()?),
            SmtpEncryption::None => Tls::None,
        };
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.host);
        let builder = builder.port(self.port).tls(tls).hello_name(local_client_id());
        let builder = match &self.login {
            Some((user, password)) => {
                builder.credentials(Credentials::new(user.clone(), password.expose_secret().to_owned()))
            }
            None => builder,
        };
        Ok(builder.build())
    }

    fn describe_error(&self, error: &Error) -> DeliveryAttemptError {
        let host = &self.host;
        let root = error_chain(error).last().map(ToString::to_string).unwrap_or_default();
        if let Some(why) = explain_tls_error(error) {
            return DeliveryAttemptError::permanent(format!("{why}: {TLS_TRUST_HINT}"));
        }
        if let Some(code) = error.status() {
            let why = match excerpt_body(&self.mask_password(&root)) {
                Some(text) => format!("`{host}` answered {code}: {text}"),
                None => format!("`{host}` answered {code}"),
            };
            return match error.is_transient() {
                true => DeliveryAttemptError::retryable(why),
                false => DeliveryAttemptError::permanent(why),
            };
        }
        if error.is_client() {
            return DeliveryAttemptError::permanent(format!("`{host}` cannot be used: {root}"));
        }
        if error.is_timeout() {
            return DeliveryAttemptError::retryable(format!("`{host}` timed out"));
        }
        match error.is_response() {
            true => DeliveryAttemptError::retryable(format!("invalid response from `{host}`")),
            false => DeliveryAttemptError::retryable(format!("no response from `{host}`: {root}")),
        }
    }

    /// Masks the password in a response, also as the server received it.
    fn mask_password(&self, text: &str) -> String {
        let Some((user, password)) = &self.login else { return text.to_owned() };
        let password = password.expose_secret();
        let sent = [STANDARD.encode(format!("\0{user}\0{password}")), STANDARD.encode(password), password.to_owned()];
        let sent = sent.iter().filter(|secret| !secret.is_empty());
        sent.fold(text.to_owned(), |text, secret| text.replace(secret, "(secret)"))
    }
}

/// Returns the name of this machine, with which a client introduces itself.
fn local_client_id() -> ClientId {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let valid = name.contains('.') && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    // The default is an address literal: servers reject names without a domain.
    if valid { ClientId::Domain(name) } else { ClientId::default() }
}

/// Adds the headers `Date` and `Message-ID`, which `sendmail` adds itself. A repeated attempt has the same ID.
pub fn complete_mail_headers(mail: &str, from: &str, now: Timestamp) -> String {
    let mut hasher = sha2::Sha256::new();
    hasher.update(format!("{now}\n{mail}"));
    let id = Sha256Digest::from_hasher(hasher);
    let domain = from.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
    let date = rfc2822::DateTimePrinter::new().timestamp_to_string(&now).unwrap_or_default();
    format!("Date: {date}\nMessage-ID: <{}@{domain}>\n{mail}", id.short_hex())
}
