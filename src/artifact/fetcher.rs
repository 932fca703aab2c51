//! Provides artifacts: from the cache, else from the network.

use super::cache::PartialDownload;
use super::error::describe_io_error;
use super::http::{self, RangeResponse};
use super::{ArtifactCache, ArtifactHttpClient, FetchError, VerifiedFile, local_file};
use crate::model::{Artifact, ArtifactSource, HttpUrl, SecretStore, Sha256Digest};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Mutex, OnceCell};

/// Receives the number of received bytes, and the total if it is known.
pub type DownloadProgressFn = Arc<dyn Fn(u64, Option<u64>) + Send + Sync>;

/// Maximum number of attempts without progress.
const MAX_STALLED_TRIES: u32 = 5;
/// The pause after the first attempt; each later pause is twice as long.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Artifacts that are available or being fetched, by source and digest.
type FetchOnceMap = BTreeMap<(ArtifactSource, Sha256Digest), Arc<OnceCell<VerifiedFile>>>;

/// Provides artifacts to a run: each is fetched once, however many hosts need it.
#[derive(Debug)]
pub struct ArtifactFetcher {
    cache: ArtifactCache,
    offline: bool,
    pause: Duration,
    client: OnceCell<ArtifactHttpClient>,
    /// The artifacts of this run so far, by source and digest.
    had: Mutex<FetchOnceMap>,
}

/// An artifact, and whether it was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedArtifact {
    /// The artifact as a file on this machine, with its checked digest.
    pub held: VerifiedFile,
    /// Whether this call fetched it; otherwise it was available locally.
    pub new: bool,
}

/// An artifact without a declared digest, and its final address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedDigest {
    /// The artifact with the digest that was computed from its content.
    pub fetched: FetchedArtifact,
    /// The address after every redirect, without its query; `None` for a file of the inventory's tree.
    pub source_url: Option<HttpUrl>,
}

impl ArtifactFetcher {
    /// Returns a depot with this cache. With `offline`, an artifact that is not cached is an error.
    pub fn new(cache: ArtifactCache, offline: bool) -> Self {
        Self { cache, offline, pause: FIRST_RETRY_PAUSE, client: OnceCell::new(), had: Mutex::default() }
    }

    /// Uses `client` instead of the default one, and waits `pause` between attempts.
    #[cfg(test)]
    pub(super) fn with_client(mut self, client: ArtifactHttpClient, pause: Duration) -> Self {
        self.client = OnceCell::from(client);
        self.pause = pause;
        self
    }

    /// Returns the cache that artifacts are taken from and added to.
    pub fn cache(&self) -> &ArtifactCache {
        &self.cache
    }

    /// Reports whether the network is not used: then an artifact that is not cached is an error.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Returns an artifact as a file on this machine. Resumes partial downloads.
    ///
    /// # Errors
    /// The artifact is not available, or has another digest than declared.
    pub async fn get_artifact(
        &self,
        artifact: &Artifact,
        secrets: &SecretStore,
        told: &DownloadProgressFn,
    ) -> Result<VerifiedFile, FetchError> {
        let key = (artifact.source.clone(), artifact.sha256.clone());
        let cell = self.had.lock().await.entry(key).or_default().clone();
        let work = async { self.obtain_artifact(artifact, secrets, told, false).await.map(|fetched| fetched.held) };
        cell.get_or_try_init(|| work).await.cloned()
    }

    /// Checks the cached copy of an artifact that a host rejected, and deletes it if it is damaged.
    pub async fn recheck_cached(&self, artifact: &Artifact) {
        self.had.lock().await.remove(&(artifact.source.clone(), artifact.sha256.clone()));
        // The next user of the artifact reports a cache that cannot be read.
        let _ = self.find_cached(&artifact.source, &artifact.sha256, true).await;
    }

    /// Like [`get_artifact`](Self::get_artifact), but checks the digest of a cached copy again.
    ///
    /// # Errors
    /// As [`get_artifact`](Self::get_artifact).
    pub async fn fetch_and_recheck(
        &self,
        artifact: &Artifact,
        secrets: &SecretStore,
        told: &DownloadProgressFn,
    ) -> Result<FetchedArtifact, FetchError> {
        self.obtain_artifact(artifact, secrets, told, true).await
    }

    /// Fetches an artifact whose digest is not known yet.
    ///
    /// # Errors
    /// The artifact is not available.
    pub async fn fetch_unknown_digest(
        &self,
        source: &ArtifactSource,
        secrets: &SecretStore,
        told: &DownloadProgressFn,
    ) -> Result<FetchedDigest, FetchError> {
        match source {
            ArtifactSource::File(path) => {
                let (own, path) = (source.clone(), path.clone());
                let held = run_blocking(source, move || local_file::verify_local_file(&own, &path, None)).await?;
                Ok(FetchedDigest { fetched: FetchedArtifact { held, new: false }, source_url: None })
            }
            ArtifactSource::Url { .. } if self.offline => Err(FetchError::unknown_digest_offline(source)),
            ArtifactSource::Url { .. } => {
                let (held, source_url) = self.download_to_cache(source, None, secrets, told).await?;
                Ok(FetchedDigest { fetched: FetchedArtifact { held, new: true }, source_url })
            }
        }
    }

    async fn obtain_artifact(
        &self,
        artifact: &Artifact,
        secrets: &SecretStore,
        told: &DownloadProgressFn,
        again: bool,
    ) -> Result<FetchedArtifact, FetchError> {
        let (source, sha256) = (&artifact.source, &artifact.sha256);
        if let ArtifactSource::File(path) = source {
            let (own, path, sha256) = (source.clone(), path.clone(), sha256.clone());
            let held = run_blocking(source, move || local_file::verify_local_file(&own, &path, Some(&sha256))).await?;
            return Ok(FetchedArtifact { held, new: false });
        }
        if let Some(held) = self.find_cached(source, sha256, again).await? {
            return Ok(FetchedArtifact { held, new: false });
        }
        match self.offline {
            true => Err(FetchError::not_cached_offline(source)),
            false => {
                let (held, _) = self.download_to_cache(source, Some(sha256), secrets, told).await?;
                Ok(FetchedArtifact { held, new: true })
            }
        }
    }

    /// Returns the cached file with a digest; checks it again if `again` is set.
    async fn find_cached(
        &self,
        source: &ArtifactSource,
        sha256: &Sha256Digest,
        again: bool,
    ) -> Result<Option<VerifiedFile>, FetchError> {
        let (cache, sha256) = (self.cache.clone(), sha256.clone());
        let look = move || {
            let found = if again { cache.recheck_file(&sha256) } else { cache.find_file(&sha256) };
            found.map_err(|error| FetchError::cache_unusable(cache.root(), &error))
        };
        run_blocking(source, look).await
    }

    /// Downloads into the cache. Returns the cached file and its final address; no address if another run has fetched
    /// it already.
    async fn download_to_cache(
        &self,
        source: &ArtifactSource,
        declared: Option<&Sha256Digest>,
        secrets: &SecretStore,
        told: &DownloadProgressFn,
    ) -> Result<(VerifiedFile, Option<HttpUrl>), FetchError> {
        let key = declared.map_or_else(|| derive_partial_key(source), |sha256| sha256.as_str().to_owned());
        let cache = self.cache.clone();
        let failed = move |error: &io::Error| FetchError::cache_unusable(cache.root(), error);
        let cache = self.cache.clone();
        let opened = move || cache.open_partial(&key).map_err(|error| FetchError::cache_unusable(cache.root(), &error));
        let mut part = run_blocking(source, opened).await?;
        // Another run may have fetched it while this one waited for the lock.
        if let Some(sha256) = declared
            && let Some(held) = self.find_cached(source, sha256, false).await?
        {
            self.cache.discard_partial(part).map_err(|error| failed(&error))?;
            return Ok((held, None));
        }
        if declared.is_none() {
            // An earlier attempt may have left data of another file, and there is no digest to detect that.
            part.clear().map_err(|error| failed(&error))?;
        }
        let mut left = part.len().map_err(|error| failed(&error))? > 0;
        loop {
            let source_url = self.download_with_retries(source, &mut part, secrets, told).await?;
            let (found, whole) = run_blocking(source, move || Ok((part.compute_digest(), part))).await?;
            part = whole;
            let found = found.map_err(|error| failed(&error))?;
            match declared {
                Some(declared) if *declared != found => {
                    // An earlier attempt may have left data of another file: start again once.
                    if std::mem::take(&mut left) {
                        part.clear().map_err(|error| failed(&error))?;
                    } else {
                        self.cache.discard_partial(part).map_err(|error| failed(&error))?;
                        return Err(FetchError::digest_mismatch(source, declared, &found));
                    }
                }
                _ => {
                    let cache = self.cache.clone();
                    let keep = move || {
                        cache
                            .commit_partial(part, &found)
                            .map_err(|error| FetchError::cache_unusable(cache.root(), &error))
                    };
                    return Ok((run_blocking(source, keep).await?, Some(source_url)));
                }
            }
        }
    }

    /// Fetches the rest of a partial download. Reconnects after errors, as long as there is progress.
    async fn download_with_retries(
        &self,
        source: &ArtifactSource,
        part: &mut PartialDownload,
        secrets: &SecretStore,
        told: &DownloadProgressFn,
    ) -> Result<HttpUrl, FetchError> {
        let started = self.client.get_or_try_init(|| std::future::ready(ArtifactHttpClient::new())).await;
        let client = started.map_err(|why| FetchError::new(source, why))?;
        let mut tries = 0;
        loop {
            let before = part.len().unwrap_or(0);
            let error = match download_rest(client, source, secrets, part, told).await {
                Ok(source_url) => return Ok(source_url),
                Err(error) => error,
            };
            tries = if part.len().unwrap_or(0) > before { 1 } else { tries + 1 };
            if !error.passing || tries >= MAX_STALLED_TRIES {
                return Err(error);
            }
            tokio::time::sleep(self.pause * 2_u32.pow(tries - 1)).await;
        }
    }
}

/// Runs blocking file operations on a separate thread.
async fn run_blocking<T: Send + 'static>(
    source: &ArtifactSource,
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|_| Err(FetchError::new(source, "forge is shutting down")))
}

/// Returns the name of a partial download whose digest is not known.
fn derive_partial_key(source: &ArtifactSource) -> String {
    use sha2::Digest;
    let mut hasher = sha2::Sha256::new();
    hasher.update(source.name());
    format!("of-{}", Sha256Digest::from_hasher(hasher).short_hex())
}

/// Fetches the missing rest of a partial download, in one attempt. Returns the final address.
async fn download_rest(
    client: &ArtifactHttpClient,
    source: &ArtifactSource,
    secrets: &SecretStore,
    part: &mut PartialDownload,
    told: &DownloadProgressFn,
) -> Result<HttpUrl, FetchError> {
    let here = |error: io::Error| FetchError::new(source, describe_io_error(&error));
    let from = part.len().map_err(here)?;
    let mut answer = client.get_range(source, secrets, from).await?;
    if answer.from < from {
        part.clear().map_err(here)?;
        if answer.total.is_none() && from > 0 {
            answer = client.get_range(source, secrets, 0).await?;
        }
    }
    let mut file = tokio::fs::File::from_std(part.file.try_clone().map_err(here)?);
    let received = append_body(source, &mut answer, &mut file, told).await;
    // Writes happen in the background: the next attempt resumes after what is in the file.
    file.flush().await.map_err(here)?;
    match (received?, answer.total) {
        (done, Some(total)) if total != done => {
            Err(connection_broken_error(source, done, answer.total, "the server closed it"))
        }
        _ => Ok(answer.address),
    }
}

/// Appends a response body to a file. Returns the number of bytes of the file that were received by then.
async fn append_body(
    source: &ArtifactSource,
    answer: &mut RangeResponse,
    file: &mut tokio::fs::File,
    told: &DownloadProgressFn,
) -> Result<u64, FetchError> {
    let mut done = answer.from;
    told(done, answer.total);
    let Some(body) = &mut answer.body else { return Ok(done) };
    loop {
        let chunk = body.chunk().await;
        let broken = |error| connection_broken_error(source, done, answer.total, &http::explain_broken_body(&error));
        let Some(chunk) = chunk.map_err(broken)? else { return Ok(done) };
        let written = file.write_all(&chunk).await;
        written.map_err(|error| FetchError::new(source, describe_io_error(&error)))?;
        done += chunk.len() as u64;
        told(done, answer.total);
    }
}

fn connection_broken_error(source: &ArtifactSource, done: u64, total: Option<u64>, why: &str) -> FetchError {
    let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
    FetchError::new(source, format!("the connection was interrupted after {done}{of} bytes: {why}"))
        .mark_retryable()
        .hint("run again: the download will be resumed")
}
