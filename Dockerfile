# The image of the command: one static program, which runs as a user without rights. It contains no
# shell, so it is for locker's own commands (locker ls, locker ui), and for other images to copy the
# program from:
#
#     COPY --from=locker /locker /usr/local/bin/locker
#
# `make docker` builds it, and provides the two files: the program, and the certificates of public
# authorities, for services that have one of theirs.
FROM scratch
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY locker /locker
USER 65532:65532
ENTRYPOINT ["/locker"]
