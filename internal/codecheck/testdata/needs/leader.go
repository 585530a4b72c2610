package needs

func step(ctx context.Context, number locker.Token) error { return nil }

func write(ctx context.Context, number locker.Token) {}
