# Names only; what they do is in scripts/.
.PHONY: demo up test check bench setup sqlx

demo:
	@scripts/demo

up:
	@scripts/up

test:
	@scripts/test

check:
	@scripts/check

bench:
	@scripts/bench

setup:
	@scripts/setup all

sqlx:
	@scripts/sqlx-refresh
