//! Why a request to the API failed.

use super::error::KubeError;

/// Why a request failed.
#[derive(Clone, Debug)]
pub(super) enum ApiRequestError {
    /// The API refused: its status and message, and the fields it named, each with its message.
    Said { code: u16, message: String, causes: Vec<(String, String)> },
    /// The API denied the request (403), although the account has the permission: a quota, limit, policy or webhook rejects
    /// it, with this message.
    Rejected(String),
    /// forge itself cannot carry out the request: the message.
    Local(String),
    /// The request was not sent, got no answer, or its credentials were rejected.
    Away(KubeError),
}

impl ApiRequestError {
    pub fn has_code(&self, wanted: u16) -> bool {
        matches!(self, Self::Said { code, .. } if *code == wanted)
    }

    /// Reports whether a dry run was refused since a webhook does not support dry runs. The API has no typed reason for
    /// that: the message is the one of `NewDryRunUnsupportedErr` in apiserver's `admission/plugin/webhook/errors`.
    pub fn is_dry_run_unsupported(&self) -> bool {
        matches!(self, Self::Said { message, .. } if message.contains("does not support dry run"))
    }

    /// Returns the message of the API.
    pub fn api_message(&self) -> String {
        match self {
            Self::Said { code, message, .. } if message.is_empty() => format!("the API returned {code}"),
            Self::Said { message, .. } | Self::Rejected(message) | Self::Local(message) => message.clone(),
            Self::Away(error) => error.message.clone(),
        }
    }

    pub fn into_kube_error(self, server: &str) -> KubeError {
        match self {
            Self::Away(error) => error,
            Self::Said { code: 403, message, .. } => {
                KubeError::new(format!("`{server}` denied the request (403): {message}"))
                    .mark_denied()
                    .hint("grant this permission to the user of this context")
            }
            Self::Rejected(message) => KubeError::new(format!("`{server}` rejected the request (403): {message}"))
                .mark_denied()
                .hint(REJECTED_REQUEST_HINT),
            said => KubeError::new(said.api_message()),
        }
    }
}

/// The account has the permission: granting it again would not help.
const REJECTED_REQUEST_HINT: &str = "this account has the permission: change the quota, limit, policy or webhook that the message names, or the declaration";

/// Builds a refusal that comes from forge itself.
pub(super) fn local_request_error(message: &str) -> ApiRequestError {
    ApiRequestError::Local(message.to_owned())
}

/// Returns the manager in a conflict message of the API: `conflict with "kubectl-edit" using apps/v1`.
pub(super) fn parse_conflict_manager(message: &str) -> &str {
    message.split('"').nth(1).unwrap_or(message)
}
