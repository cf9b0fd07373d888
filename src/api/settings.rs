//! The settings as the last second knew them, so that not every request asks the database.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sqlx::PgPool;

use super::ApiError;
use crate::db::settings;
use crate::domain::settings::Settings;

/// How old the values may be. A change made through another process shows after that.
const FRESH: SignedDuration = SignedDuration::from_secs(1);

/// The settings, read anew when they are old.
#[derive(Debug, Default)]
pub struct SettingsCache {
    held: Mutex<Option<(Timestamp, Arc<Settings>)>>,
}

impl SettingsCache {
    /// The values.
    pub async fn get(&self, pool: &PgPool, now: Timestamp) -> Result<Arc<Settings>, ApiError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read, values)) = held
            && now.duration_since(read).abs() < FRESH
        {
            return Ok(values);
        }
        let mut conn = pool.acquire().await?;
        let values = Arc::new(settings::load(&mut conn).await?);
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&values)));
        Ok(values)
    }

    /// Forgets the values, after a change of our own.
    pub fn forget(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
