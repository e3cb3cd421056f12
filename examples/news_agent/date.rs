//! Dates as the news have them.

/// Days since 1970-01-01 of a date such as `2026-03-16`.
///
/// # Errors
/// When it is not a date.
pub fn day_number(date: &str) -> Result<i64, String> {
    let wrong = || format!("`{date}` is not a date such as 2026-03-16");
    let parts: Vec<i64> = date
        .split('-')
        .map(|part| part.parse().map_err(|_| wrong()))
        .collect::<Result<_, _>>()?;
    let [year @ 0..=9999, month @ 1..=12, day @ 1..=31] = parts[..] else {
        return Err(wrong());
    };
    // Years begin in March here, so that a leap day is the last of its year.
    let year = if month < 3 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Ok(
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year
            - 719_468,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_a_number_of_days() {
        for (date, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("2026-03-16", 20_528),
        ] {
            assert_eq!(day_number(date), Ok(days), "{date}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for date in [
            "",
            "yesterday",
            "2026-03",
            "2026-13-01",
            "2026-00-01",
            "2026-01-32",
            "1-1-1-1",
            "10000-01-01",
        ] {
            assert!(day_number(date).is_err(), "{date}");
        }
    }
}
