package needs

var (
	config         *tls.Config
	servers        []string
	user, password string
)
