package needs

func group(name string) string { return name }
