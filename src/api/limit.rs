//! The rate limit: a fixed window per account (`api-protocol.md` 2.6).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use crate::domain::settings::{
    Settings, THROTTLING_CACHE_SIZE, THROTTLING_ENABLED, THROTTLING_INTERVAL, THROTTLING_MAX,
};
use crate::protocol::{Code, CsCode, Fault};

#[derive(Debug, Clone, Copy)]
struct Window {
    ends: Timestamp,
    calls: i64,
}

/// Counts the calls of each account in this process.
#[derive(Debug, Default)]
pub struct Limiter {
    windows: Mutex<HashMap<i64, Window>>,
}

impl Limiter {
    /// Counts a call.
    ///
    /// # Errors
    /// Code 429 when the account has made all the calls that it may make in its window.
    pub fn count(&self, account_key: i64, settings: &Settings, now: Timestamp) -> Result<(), Fault> {
        if !settings.boolean(&THROTTLING_ENABLED) {
            return Ok(());
        }
        let interval = jiff::SignedDuration::from_secs(settings.number(&THROTTLING_INTERVAL));
        let most = usize::try_from(settings.number(&THROTTLING_CACHE_SIZE)).unwrap_or(usize::MAX);
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= most && !windows.contains_key(&account_key) {
            windows.retain(|_, window| window.ends > now);
        }
        let fresh = Window {
            ends: now.saturating_add(interval).unwrap_or(Timestamp::MAX),
            calls: 0,
        };
        let window = windows.entry(account_key).or_insert(fresh);
        if window.ends <= now {
            *window = fresh;
        }
        if window.calls >= settings.number(&THROTTLING_MAX) {
            let left = window.ends.duration_since(now).as_millis();
            return Err(Fault::new(
                Code::RateLimited,
                CsCode::ServerApi,
                format!(
                    "The given user has reached his/her account api limit, please retry after [{left}] ms."
                ),
            ));
        }
        window.calls += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::from_rows(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )
    }

    #[test]
    fn a_window_takes_so_many_calls_and_then_begins_anew() {
        let on = settings(&[
            ("api.throttling.enabled", "true"),
            ("api.throttling.max", "2"),
            ("api.throttling.interval", "10"),
        ]);
        let limiter = Limiter::default();
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        assert_eq!(limiter.count(1, &on, at(0)), Ok(()));
        assert_eq!(limiter.count(1, &on, at(10)), Ok(()));
        let fault = limiter.count(1, &on, at(4_000)).unwrap_err();
        assert_eq!(
            fault.body().to_string(),
            r#"{"uuidList":[],"errorcode":429,"cserrorcode":9999,"errortext":"The given user has reached his/her account api limit, please retry after [6000] ms."}"#
        );
        assert_eq!(
            limiter.count(2, &on, at(4_000)),
            Ok(()),
            "each account has its own"
        );
        assert_eq!(limiter.count(1, &on, at(10_000)), Ok(()));
    }

    #[test]
    fn nothing_is_counted_when_it_is_off() {
        let limiter = Limiter::default();
        for _ in 0..100 {
            assert_eq!(
                limiter.count(1, &Settings::default(), Timestamp::UNIX_EPOCH),
                Ok(())
            );
        }
    }
}
