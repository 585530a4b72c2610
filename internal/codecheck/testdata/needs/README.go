package needs

var url string

func send(invoice string, token locker.Token) {}

// sendInvoices is the code under test, as in the examples of package membackend.
func sendInvoices(
	ctx context.Context, l locker.Locker, work <-chan string, send func(invoice string, token locker.Token),
) error {
	return nil
}
