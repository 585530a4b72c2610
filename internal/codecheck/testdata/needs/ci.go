package needs

func connect(t conformance.T) locker.Locker { panic("of the author of a backend") }
