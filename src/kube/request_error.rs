//! Why a request to the API failed.

use super::error::KubeError;

/// Why a request failed.
#[derive(Clone, Debug)]
pub(super) enum ApiRequestError {
    /// The API refused: its status and message, and its causes.
    Said { code: u16, message: String, causes: Vec<ApiErrorCause> },
    /// The API denied the request (403), although the account has the permission: a quota, limit, policy or webhook rejects
    /// it, with this message.
    Rejected(String),
    /// forge itself cannot carry out the request: the message.
    Local(String),
    /// The request was not sent, got no answer, or its credentials were rejected.
    Away(KubeError),
}

/// One cause of a refusal: a `StatusCause` of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ApiErrorCause {
    /// A constant of the API: `FieldValueForbidden`.
    pub reason: String,
    pub field: String,
    pub message: String,
}

/// The reason of a cause whose field must not be set or changed: `field.Forbidden` of the API's validation.
const FORBIDDEN_FIELD: &str = "FieldValueForbidden";

/// Statuses of the client's class that say nothing about the request: a timeout, an object that changed or is gone, and
/// an API that is busy.
const CODES_WITHOUT_VERDICT: [u16; 4] = [404, 408, 409, 429];

impl ApiRequestError {
    /// Reports whether the API judged the content of the request, or the account's permission for it. Another error
    /// says nothing about either.
    pub fn is_verdict(&self) -> bool {
        match self {
            Self::Said { code, .. } => (400..=499).contains(code) && !CODES_WITHOUT_VERDICT.contains(code),
            Self::Rejected(_) => true,
            Self::Local(_) | Self::Away(_) => false,
        }
    }

    /// Returns the fields that the API forbids to change, according to its causes.
    pub fn list_forbidden_fields(&self) -> Vec<String> {
        let Self::Said { causes, .. } = self else { return Vec::new() };
        let forbidden = causes.iter().filter(|cause| cause.reason == FORBIDDEN_FIELD);
        forbidden.map(|cause| cause.field.trim_start_matches('.').to_owned()).collect()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_or_failed_api_gives_no_verdict() {
        let said = |code| ApiRequestError::Said { code, message: String::new(), causes: Vec::new() };
        let verdicts: Vec<u16> = [400, 403, 404, 405, 408, 409, 415, 422, 429, 500, 503, 504]
            .into_iter()
            .filter(|code| said(*code).is_verdict())
            .collect();
        assert_eq!(verdicts, [400, 403, 405, 415, 422]);
        assert!(ApiRequestError::Rejected(String::new()).is_verdict());
        assert!(!ApiRequestError::Local(String::new()).is_verdict());
        assert!(!ApiRequestError::Away(KubeError::new("")).is_verdict());
    }
}
