//! Distinguishes a missing permission from a rejection by admission: the API answers both with 403, and its status has no typed
//! reason that differs. So forge asks the API whether the account has the permission.

use super::request_error::ApiRequestError;
use super::served_kinds::ApiCollection;
use super::{ClusterApi, KubeError};
use crate::object::ObjectId;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};

/// What the API says if the content of an object needs permissions beyond those on the object, for which it has no typed
/// reason: `pkg/registry/rbac/validation` and `plugin/pkg/admission/gc` of Kubernetes.
const MORE_PERMISSIONS: [&str; 2] =
    ["attempting to grant RBAC permissions not currently held", "cannot set blockOwnerDeletion"];

impl ClusterApi {
    /// Returns the error of a request that needs `verb` on the object. One that the API denied (403) although the account
    /// has the permission becomes [`ApiRequestError::Rejected`].
    pub(super) async fn classify_denial(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        verb: &str,
        error: ApiRequestError,
    ) -> ApiRequestError {
        let ApiRequestError::Said { code: 403, message, .. } = &error else { return error };
        if MORE_PERMISSIONS.iter().any(|text| message.contains(text)) {
            return error;
        }
        match self.lacks_permission(place, id, verb).await {
            Ok(false) => ApiRequestError::Rejected(message.clone()),
            // Without an answer, the usual cause is assumed.
            Ok(true) | Err(_) => error,
        }
    }

    /// Reports whether the account lacks the permission. An apply that creates its object needs `create`, too.
    pub(super) async fn lacks_permission(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        verb: &str,
    ) -> Result<bool, ApiRequestError> {
        if !self.is_permitted(place, id, verb).await.map_err(ApiRequestError::Away)? {
            return Ok(true);
        }
        if verb != "patch" || self.is_permitted(place, id, "create").await.map_err(ApiRequestError::Away)? {
            return Ok(false);
        }
        Ok(self.get_object(place, id).await?.is_none())
    }

    /// Asks first for all names, then for this one: most roles name none, and one quota rejects many objects.
    async fn is_permitted(&self, place: &ApiCollection, id: &ObjectId, verb: &str) -> Result<bool, KubeError> {
        let of_all = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(place.group().to_owned()),
            resource: Some(place.plural().to_owned()),
            namespace: place.namespace_of(id).map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let of_one = ResourceAttributes { name: Some(id.name.clone()), ..of_all.clone() };
        Ok(self.review_once(of_all).await? || self.review_once(of_one).await?)
    }

    /// Returns the answer that the API gave before, if any.
    async fn review_once(&self, asked: ResourceAttributes) -> Result<bool, KubeError> {
        if let Some((_, allowed)) = self.found.reviews.lock().await.iter().find(|(known, _)| *known == asked) {
            return Ok(*allowed);
        }
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(asked.clone()),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let allowed = self.review_access(spec).await?;
        self.found.reviews.lock().await.push((asked, allowed));
        Ok(allowed)
    }

    /// Forgets the known permissions: a change of the cluster may be one of a role.
    pub(super) async fn clear_reviews(&self) {
        self.found.reviews.lock().await.clear();
    }

    /// Asks the API whether the account may do something. Nothing is written.
    ///
    /// # Errors
    /// The server does not answer in time, or rejects the credentials.
    pub(super) async fn review_access(&self, spec: SelfSubjectAccessReviewSpec) -> Result<bool, KubeError> {
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let api: ::kube::Api<SelfSubjectAccessReview> = ::kube::Api::all(self.client().clone());
        let answer = self.send_request(api.create(&::kube::api::PostParams::default(), &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::server::Server;
    use crate::kube::tests::{json_reply, start_api, status_reply};
    use serde_json::json;

    const QUOTA: &str = r#"configmaps "a" is forbidden: exceeded quota: rq"#;

    /// Opens an API that answers every apply of an object that does not exist with 403, for an account with the
    /// permissions `verbs`.
    async fn start_denying_api(verbs: &'static [&'static str]) -> (ClusterApi, Server) {
        start_api(move |request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", path) if path.contains("selfsubjectaccessreviews") => {
                let review: crate::model::Value = serde_json::from_str(&request.body).unwrap();
                let asked = &review["spec"]["resourceAttributes"];
                assert_eq!(
                    (&asked["group"], &asked["resource"], &asked["namespace"]),
                    (&json!(""), &json!("configmaps"), &json!("web"))
                );
                assert!(
                    asked["name"].is_null() || ["a", "b", "c"].iter().any(|name| asked["name"] == *name),
                    "{asked}"
                );
                let allowed = verbs.contains(&asked["verb"].as_str().unwrap());
                json_reply(201, &json!({ "metadata": {}, "spec": {}, "status": { "allowed": allowed } }))
            }
            ("PATCH", _) => status_reply(403, QUOTA, json!({})),
            _ => status_reply(404, "not found", json!({})),
        })
        .await
    }

    async fn apply_object(cluster: &ClusterApi, name: &str) -> ApiRequestError {
        let id = ObjectId {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("web".into()),
            name: name.into(),
        };
        let place = ApiCollection::new("v1", "configmaps", true);
        cluster.apply_object(&place, &id, &json!({}), true, true).await.unwrap_err()
    }

    async fn apply_denied(verbs: &'static [&'static str]) -> ApiRequestError {
        let (cluster, _server) = start_denying_api(verbs).await;
        apply_object(&cluster, "a").await
    }

    /// One quota rejects many objects: the permission is the same for all of them, until the run changes the cluster.
    #[tokio::test]
    async fn permissions_are_asked_for_once() {
        let (cluster, server) = start_denying_api(&["patch", "create"]).await;
        let reviews = || server.asked().iter().filter(|asked| asked.method == "POST").count();
        for name in ["a", "b", "c"] {
            let error = apply_object(&cluster, name).await;
            assert!(matches!(error, ApiRequestError::Rejected(_)), "{name}: {error:?}");
        }
        assert_eq!(reviews(), 2);
        cluster.clear_reviews().await;
        apply_object(&cluster, "a").await;
        assert_eq!(reviews(), 4);
    }

    #[tokio::test]
    async fn denial_of_a_permitted_request_is_a_rejection_by_admission() {
        let error = apply_denied(&["patch", "create"]).await;
        assert!(matches!(&error, ApiRequestError::Rejected(message) if message == QUOTA), "{error:?}");
        let error = error.into_kube_error("https://a:1");
        assert_eq!(error.message, format!("`https://a:1` rejected the request (403): {QUOTA}"));
        assert!(error.hint.unwrap().starts_with("this account has the permission: "));
        for lacking in [&[][..], &["create"], &["patch"]] {
            let error = apply_denied(lacking).await;
            assert!(error.has_code(403), "{lacking:?}: {error:?}");
        }
    }
}
