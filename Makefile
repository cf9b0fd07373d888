# Names only; what they do is in scripts/.
.PHONY: demo up test check setup sqlx

demo:
	@scripts/demo

up:
	@scripts/up

test:
	@scripts/test

check:
	@scripts/check

setup:
	@scripts/setup all

sqlx:
	@scripts/sqlx-refresh
