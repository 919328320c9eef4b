#include "api/http/http_server.h"

#include "api/http/server_core.h"

namespace gradus::api {

HttpServer::HttpServer(const config::HttpConfig& config, Handler& handler, int threads,
                       const Clock& clock, worker::SharedPool& pool, std::size_t most_connections)
    : core_(std::make_shared<ServerCore>(config, handler, threads, clock, pool, most_connections)) {
}

HttpServer::~HttpServer() { stop(TimePoint::min()); }

Result<std::uint16_t> HttpServer::start() { return core_->start(); }
void HttpServer::drain() { core_->drain(); }
void HttpServer::stop(TimePoint deadline) { core_->stop(deadline); }
std::size_t HttpServer::connections() const { return core_->connection_count(); }

}  // namespace gradus::api
