package zkbackend_test

import "encoding/binary"

// What the servers of these tests read and write.

type reader struct{ data []byte }

func (r *reader) take(n int) []byte {
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) bool() bool     { return r.take(1)[0] != 0 }
func (r *reader) int32() int32   { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) int64() int64   { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) bytes() []byte  { return r.take(max(int(r.int32()), 0)) }
func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) list() (list []string) {
	for range r.int32() {
		list = append(list, r.string())
	}
	return list
}

// acl reads a list of permissions, schemes and ids.
func (r *reader) acl() {
	for range r.int32() {
		r.int32()
		r.string()
		r.string()
	}
}

type writer struct{ data []byte }

func (w *writer) bool(b bool) {
	if b {
		w.data = append(w.data, 1)
		return
	}
	w.data = append(w.data, 0)
}
func (w *writer) int32(n int32)   { w.data = binary.BigEndian.AppendUint32(w.data, uint32(n)) }
func (w *writer) int64(n int64)   { w.data = binary.BigEndian.AppendUint64(w.data, uint64(n)) }
func (w *writer) string(s string) { w.int32(int32(len(s))); w.data = append(w.data, s...) }

func (w *writer) stat(z *znode) {
	w.int64(z.czxid)
	w.int64(z.mzxid)
	w.int64(0)
	w.int64(0)
	w.int32(z.version)
	w.int32(0)
	w.int32(0)
	w.int64(z.owner)
	w.int32(0)
	w.int32(int32(len(z.children)))
	w.int64(0)
}

// packet is data after its length.
func packet(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}
