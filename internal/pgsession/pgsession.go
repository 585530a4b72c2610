// Package pgsession is a connection to a Postgres server: [Session]. A session executes statements,
// one after the other, and function calls, which don't wait for each other's answers. It knows
// nothing of what they are for. write.go says how calls are sent, read.go who reads the answers,
// and receive.go what they are. session.go has the rest of what callers use, and function.go the
// functions.
//
// pgx makes the connection ([Dial]), and then hands its stream over, because of this behaviour of
// pgx (v5.12.0) and of Postgres:
//
//   - pgx reads a connection only while a statement is under way, so the end of an idle connection
//     would be known with the next statement (pgconn.go, PgConn.receiveMessage). Here it is known
//     at once, or 10 ms after the last statement.
//   - pgx closes a connection when the context of a statement ends (pgconn.go,
//     MultiResultReader.receiveMessage and its calls of asyncClose). All that depends on the
//     session would be lost with it. Here a context covers the waiting alone.
//   - pgx' normal way is the extended protocol, in several messages. A server that has got the
//     first of them counts the session as busy, so its idle_session_timeout doesn't run (postgres.c
//     starts that when it is ready for the next query), and a client that is cut off at that moment
//     keeps its session for hours. Here a statement is one whole message of the simple protocol,
//     and a function call is one whole message as well.
//   - pgx sends a statement when the one before has its answer, and has no function calls (it knows
//     their messages, in pgproto3/function_call.go, and sends none).
//   - pgx has a line of error for each address and each way to use TLS (errors.go,
//     ConnectError.Error). Here it is one line.
//   - pgx gives each address of each host all of the time (pgconn.go, connectPreferred), and resolves
//     the names one after the other, so one that is cut off uses up what the others need. Here each
//     address has its part (hosts.go).
//   - The server's TCP, and this machine's, may end the connection of a client that is cut off
//     before idle_session_timeout does (prepare.go, tcp_linux.go).
//   - A pooler may give each transaction another session (pooler.go).
//   - A server may go on with a session whose connection has ended here (terminate.go).
package pgsession
