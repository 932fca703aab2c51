//! A connection to the cluster's API.

use super::KubeError;
use super::helm::{HelmOptions, HelmProgram, HelmTarget};
use super::retry::{ApiAvailability, ApiRetryPolicy};
use super::served_kinds::ApiDiscovery;
use crate::model::SecretStore;
use crate::object::ClusterAbsence;
use crate::object::ClusterAccess;
use crate::script::{ShellFragment, ShellScript};
use crate::transport::{self, TransportSession};
use ::kube::Client;
use ::kube::client::ClientBuilder;
use ::kube::config::Kubeconfig;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReviewSpec};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OnceCell};
use tower::buffer::BufferLayer;
use tower::retry::RetryLayer;

/// The time limit of one request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The exit status of the script that reads a kubeconfig if the file does not exist.
const MISSING_FILE_STATUS: i32 = 66;

/// Requests that may wait for the connection.
const REQUEST_QUEUE: usize = 1024;

/// The API of one cluster, as one user.
#[derive(Clone)]
pub struct ClusterApi {
    pub(super) client: Client,
    /// The address, and the host that the connection goes through, if any.
    server: String,
    /// The session that the connection goes through, open as long as requests are sent.
    session: Option<TransportSession>,
    /// The namespace of forge's lock and records.
    namespace: String,
    /// How the `helm` program reaches the same API.
    login: HelmTarget,
    options: HelmOptions,
    pub(super) found: Arc<ClusterApiCache>,
    availability: Arc<ApiAvailability>,
}

/// Results that are determined once and cached.
#[derive(Default)]
pub(super) struct ClusterApiCache {
    helm: OnceCell<HelmProgram>,
    pub(super) served: Mutex<Option<Arc<ApiDiscovery>>>,
    /// The known permissions of the account.
    pub(super) reviews: Mutex<Vec<(ResourceAttributes, bool)>>,
}

/// A permission that the user has or lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiPermission {
    /// `get`, `patch` …, `*` for all.
    pub verb: &'static str,
    /// `*` for all.
    pub group: &'static str,
    /// In the plural; `*` for all.
    pub resource: &'static str,
}

impl ClusterApi {
    /// Opens a client. Nothing is contacted yet, but a login program may run.
    ///
    /// # Errors
    /// The kubeconfig is incomplete, or has an unusable key.
    pub async fn open(access: &ClusterAccess) -> Result<Self, KubeError> {
        let config = access.load_config().await?;
        let server = server_address(&config);
        let availability = Arc::new(ApiAvailability::new(Duration::from_secs(access.retry_s)));
        let client = build_client(config, &availability)
            .map_err(|error| KubeError::from_client_error(&server, false, &error))?;
        let login = HelmTarget {
            kubeconfig: access.kubeconfig.clone(),
            context: access.context.clone(),
            withheld: access.withheld.clone(),
            _made: None,
        };
        Ok(Self {
            client,
            server,
            session: None,
            namespace: access.namespace.clone(),
            login,
            options: HelmOptions::default(),
            found: Arc::default(),
            availability,
        })
    }

    /// Opens a client through a host: reads the host's kubeconfig, and connects from that host.
    ///
    /// # Errors
    /// The kubeconfig on the host cannot be read, and as [`ClusterApi::open`].
    pub async fn open_through_host(access: &ClusterAccess, session: TransportSession) -> Result<Self, KubeError> {
        let text = read_remote_kubeconfig(access, &session).await?;
        let mut config = access.parse_config(&text).await?;
        let server = format!("{} through {}", server_address(&config), session.host());
        forward_connections(&mut config, &session).await?;
        let login = write_helm_kubeconfig(access, &text, &config)?;
        let availability = Arc::new(ApiAvailability::new(Duration::from_secs(access.retry_s)));
        let client =
            build_client(config, &availability).map_err(|error| KubeError::from_client_error(&server, true, &error))?;
        Ok(Self {
            client,
            server,
            session: Some(session),
            namespace: access.namespace.clone(),
            login,
            options: HelmOptions::default(),
            found: Arc::default(),
            availability,
        })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sets the helm program and the chart cache.
    pub fn with_helm(self, options: HelmOptions) -> Self {
        Self { options, ..self }
    }

    pub(super) fn helm_options(&self) -> &HelmOptions {
        &self.options
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the `helm` of this machine, configured for this cluster.
    pub(super) async fn open_helm(&self) -> Result<&HelmProgram, KubeError> {
        self.found.helm.get_or_try_init(|| self.options.open_program(self.login.clone())).await
    }

    /// Closes the session that the connection goes through.
    pub async fn close(self) {
        if let Some(session) = self.session {
            session.close().await;
        }
    }

    /// Returns the address.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Queries the version of the API server: `v1.33.1`.
    ///
    /// # Errors
    /// The server does not answer in time, or refuses the request.
    pub async fn server_version(&self) -> Result<String, KubeError> {
        self.send_request(self.client.apiserver_version()).await.map(|version| version.git_version)
    }

    /// Queries whether the user has a permission in every namespace. Nothing is written.
    ///
    /// # Errors
    /// The server does not answer in time, or rejects the credentials.
    pub async fn has_permission(&self, right: ApiPermission) -> Result<bool, KubeError> {
        self.review_access(build_access_review(right)).await
    }

    pub(super) async fn send_request<T>(
        &self,
        question: impl Future<Output = ::kube::Result<T>>,
    ) -> Result<T, KubeError> {
        match tokio::time::timeout(self.request_limit(), question).await {
            Ok(answer) => {
                answer.map_err(|error| KubeError::from_client_error(&self.server, self.session.is_some(), &error))
            }
            Err(_) => Err(self.no_answer_error()),
        }
    }

    /// Returns the time limit of a request with its retries.
    pub(super) fn request_limit(&self) -> Duration {
        REQUEST_TIMEOUT + self.availability.retry_time()
    }

    pub(super) fn no_answer_error(&self) -> KubeError {
        KubeError::new(format!("no response from `{}` within {} s", self.server, self.request_limit().as_secs()))
            .with_absence(ClusterAbsence::NoAnswer)
    }

    /// Reports whether the connection goes through a host.
    pub(super) fn is_tunneled(&self) -> bool {
        self.session.is_some()
    }
}

/// Builds a client that retries requests while the API is away.
pub(super) fn build_client(config: ::kube::Config, availability: &Arc<ApiAvailability>) -> ::kube::Result<Client> {
    let policy = ApiRetryPolicy::new(availability.clone());
    let client = ClientBuilder::try_from(config)?
        // Retries need a service that can be cloned.
        .with_layer(&BufferLayer::new(REQUEST_QUEUE))
        .with_layer(&RetryLayer::new(policy));
    Ok(client.build())
}

fn server_address(config: &::kube::Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

/// Reads the kubeconfig on the host.
async fn read_remote_kubeconfig(access: &ClusterAccess, session: &TransportSession) -> Result<String, KubeError> {
    let token = transport::random_token().map_err(|error| KubeError::from_transport_error(session.host(), &error))?;
    let path = access.kubeconfig.as_str();
    let body = ShellFragment::new()
        .code("cat --")
        .word(path)
        // To another user than root, a file in a closed folder looks missing.
        .code("&& exit 0; [ \"$(id -u)\" = 0 ] || exit 1; [ -e")
        .word(path)
        .code("] || [ -L")
        .word(path)
        .code("] && exit 1; exit 66");
    let script = ShellScript { body, token, limit: REQUEST_TIMEOUT };
    let ended = session.run_script(&script, &SecretStore::default(), None).await;
    let ended = ended.map_err(|error| KubeError::from_transport_error(session.host(), &error))?;
    match ended.status {
        0 => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        MISSING_FILE_STATUS => {
            let error = KubeError::new(format!("kubeconfig `{path}` not found on `{}`", session.host()));
            Err(error.with_absence(ClusterAbsence::NoKubeconfig).hint("set `kubernetes.kubeconfig` to the right file"))
        }
        _ => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            let error = KubeError::new(format!("kubeconfig of `{}` cannot be read: {said}", session.host()));
            Err(error.hint("set `kubernetes.kubeconfig` to the right file; reading it may need `connect: { sudo: … }`"))
        }
    }
}

/// Routes the connections of `config` through the host. The certificate is still checked for the original server name.
async fn forward_connections(config: &mut ::kube::Config, session: &TransportSession) -> Result<(), KubeError> {
    let url = config.cluster_url.clone();
    let scheme = url.scheme_str().unwrap_or("https");
    let name = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_u16().unwrap_or(if scheme == "http" { 80 } else { 443 });
    let here = session
        .forward_port((&name, port))
        .await
        .map_err(|error| KubeError::from_transport_error(session.host(), &error))?;
    let Some(here) = here else { return Ok(()) };
    let path = url.path_and_query().map_or("", |path| path.as_str());
    let address = format!("{scheme}://{here}{path}");
    config.cluster_url = address.parse().map_err(|_| KubeError::new("the kubeconfig has no valid server address"))?;
    config.tls_server_name.get_or_insert(name);
    Ok(())
}

/// Writes a kubeconfig for the `helm` program: one context, with the local address of the forwarded connection.
fn write_helm_kubeconfig(access: &ClusterAccess, text: &str, config: &::kube::Config) -> Result<HelmTarget, KubeError> {
    let lost = |why: &dyn std::fmt::Display| KubeError::new(format!("cannot create a kubeconfig for helm: {why}"));
    let mut file = Kubeconfig::from_yaml(text).map_err(|error| lost(&error))?;
    file.contexts.retain(|context| context.name == access.context);
    let named = file.contexts.first().and_then(|context| context.context.clone()).unwrap_or_default();
    file.clusters.retain(|cluster| cluster.name == named.cluster);
    file.auth_infos.retain(|user| Some(&user.name) == named.user.as_ref());
    for cluster in file.clusters.iter_mut().filter_map(|cluster| cluster.cluster.as_mut()) {
        cluster.server = Some(server_address(config));
        cluster.tls_server_name.clone_from(&config.tls_server_name);
    }
    let json = serde_json::to_vec(&file).map_err(|error| lost(&error))?;
    // A temporary file has mode 0600 from its creation.
    let made = tempfile::Builder::new().prefix("forge-kubeconfig-").tempfile().map_err(|error| lost(&error))?;
    fs_err::write(made.path(), json).map_err(|error| lost(&error))?;
    let kubeconfig = camino::Utf8PathBuf::from(made.path().to_string_lossy().into_owned());
    let (context, withheld) = (access.context.clone(), access.withheld.clone());
    Ok(HelmTarget { kubeconfig, context, withheld, _made: Some(Arc::new(made)) })
}

fn build_access_review(right: ApiPermission) -> SelfSubjectAccessReviewSpec {
    let attributes = ResourceAttributes {
        verb: Some(right.verb.to_owned()),
        group: Some(right.group.to_owned()),
        resource: Some(right.resource.to_owned()),
        ..ResourceAttributes::default()
    };
    SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() }
}
