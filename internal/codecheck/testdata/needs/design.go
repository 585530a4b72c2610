package needs

type (
	Grant   = driver.Grant
	Instant = driver.Instant
)
