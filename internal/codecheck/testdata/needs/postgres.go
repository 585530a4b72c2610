package needs

var (
	poolConfig *pgxpool.Config
	tx         pgx.Tx
)
